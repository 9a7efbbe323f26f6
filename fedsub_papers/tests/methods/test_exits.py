"""Models with exits on weak devices: numbers by hand, traps, and what must not differ."""

from collections.abc import Mapping
from dataclasses import replace
from math import log
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from fedsub.engines.simulation import build_strategy
from fedsub.export.formats import export
from fedsub.testing.device_grid import DeviceGrid
from fedsub.testing.halves import HalfAlone
from fedsub.testing.runs import RunMethod, assert_equal, assert_near_states, people
from fedsub.testing.tested_model_tests import assert_predicts_what_was_measured
from fedsub_client.loaded_model import load_model
from fedsub_core.config.run_config import RunConfig
from fedsub_core.data.federation import write_federation
from fedsub_core.data.stacks import stack
from fedsub_core.methods.table import METHODS
from fedsub_core.models.chain import Chain
from fedsub_core.models.kinds import mlp
from fedsub_core.training import TrainingSettings, Turn
from fedsub_core.training.batches import Batch
from fedsub_core.training.objectives import CrossEntropy, Forward
from fedsub_core.wire.bundles import Bundle, Floats
from fedsub_papers.client.methods.depthfl import MeanOfExits, Mutual, ramped
from fedsub_papers.models.exits import with_all_exits

EXITS = ("depthfl", "scalefl")
#: Hidden layers of which each is worth an exit.
DEEP: dict[str, Any] = {"model": "mlp", "hidden": "16,24,32"}
SHARES = "p2=0.75,p3=0.3"


def server(name: str, weak: Mapping[str, float], **hyper: Any) -> HalfAlone:
    """Return a server half of a model of three hidden layers, and weak clients."""
    card = METHODS[name]
    given = replace(card.hyperparameters(), **hyper)
    whole = card.weak.load_holds()(mlp(2, 3, (16, 24, 32)), given, 1.0)
    return HalfAlone.of(name, whole, weak, {"robust": "none"}, **hyper)


def returned(bundle: Bundle, value: float) -> Bundle:
    """Return an upload all of whose numbers are `value`."""
    shapes = {n: p.values.shape for n, p in bundle.tensors.items()}
    return Bundle(9, tensors={n: Floats(np.full(s, value, np.float32)) for n, s in shapes.items()})


def test_exits_losses_are_weighted_by_their_place() -> None:
    """(1 * 1.2 + 2 * 0.9 + 3 * 0.6) / 6 = 0.8."""
    parts = tuple(2 * (i + 1) / (3 * 4) for i in range(3))
    said = [torch.tensor([[[0.0, log(np.exp(loss) - 1)]]]) for loss in (1.2, 0.9, 0.6)]
    batch = Batch(torch.zeros(1, 1, 1), torch.zeros(1, 1, dtype=torch.int64), torch.ones(1, 1), 0)
    forward = Forward({}, batch, said, said[0])
    assert float(CrossEntropy(parts).loss(forward, {})) == pytest.approx(0.8)


def test_every_exit_learns_from_all_others() -> None:
    stream = torch.Generator().manual_seed(3)
    said = [torch.randn(2, 4, 3, generator=stream).requires_grad_() for _ in range(3)]
    weight = torch.full((2, 4), 0.25)
    batch = Batch(torch.zeros(2, 4, 1), torch.zeros(2, 4, dtype=torch.int64), weight, 0)
    found = Mutual(0.5).loss(Forward({}, batch, said, said[0]), {})
    divergence = torch.nn.functional.kl_div
    pairs = [
        divergence(one.log_softmax(-1), other.softmax(-1), reduction="none").sum(-1).mean(1).sum()
        for one in said
        for other in said
        if one is not other
    ]
    assert float(found) == pytest.approx(0.5 / 2 * float(sum(pairs)), rel=1e-5)
    found.backward()  # type: ignore[no-untyped-call]
    p = [one.detach().softmax(-1) for one in said]
    # A teacher is a constant: each exit's gradient is that of two students' sums alone.
    expected = 0.5 / 2 * 0.25 * (2 * p[0] - p[1] - p[2])
    torch.testing.assert_close(said[0].grad, expected)


def test_exits_teach_more_and_more() -> None:
    found = [ramped(round, 300) for round in (0, 150, 300, 900)]
    assert found == pytest.approx([0.00674, 0.2865, 1.0, 1.0], abs=5e-5)


def test_depthfls_server_goes_on_against_the_drift() -> None:
    """Old 1, both of two return .8: h = .02, new .6. What nobody holds stays, to the bit."""
    strategy = server("depthfl", {"a": 0.3, "b": 0.3})
    shapes, turn = strategy.model.parameter_shapes, Turn(1, 9, 0)
    state = {name: torch.ones(shape) for name, shape in shapes.items()}
    state |= {f"drift/{name}": torch.zeros(shape) for name, shape in shapes.items()}
    sent = strategy.half.downloads(state, strategy.round(turn), ["a", "b"])
    assert sent[0] is sent[1] and "linear2.weight" not in sent[0].tensors
    uploads = {client: returned(sent[0], 0.8) for client in ("a", "b")}
    after, _ = strategy.half.aggregate(state, strategy.round(turn), uploads)
    for name in sent[0].tensors:
        torch.testing.assert_close(after[name], torch.full(shapes[name], 0.6))
        torch.testing.assert_close(after[f"drift/{name}"], torch.full(shapes[name], 0.02))
    for name in shapes.keys() - sent[0].tensors.keys():
        assert torch.equal(after[name], state[name]) and not after[f"drift/{name}"].any()


def test_depthfls_drift_grows_by_the_share_of_clients_that_hold_a_layer() -> None:
    """Old 1, drift .01, one of four returns .8: h = .01 + .1 / 4 * .2 = .015, new .8 - .15."""
    strategy = server("depthfl", dict.fromkeys("abcd", 0.3))
    shapes, turn = strategy.model.parameter_shapes, Turn(2, 9, 0)
    state = {name: torch.ones(shape) for name, shape in shapes.items()}
    state |= {f"drift/{name}": torch.full(shape, 0.01) for name, shape in shapes.items()}
    (sent,) = strategy.half.downloads(state, strategy.round(turn), ["a"])
    after, _ = strategy.half.aggregate(state, strategy.round(turn), {"a": returned(sent, 0.8)})
    for name in sent.tensors:
        torch.testing.assert_close(after[name], torch.full(shapes[name], 0.65))
        torch.testing.assert_close(after[f"drift/{name}"], torch.full(shapes[name], 0.015))


def test_depthfls_device_minimises_feddyns_loss() -> None:
    """One step: CE's gradient, less q, and the next q is less by alpha times the way."""
    card, model = METHODS["depthfl"], mlp(2, 3, (4,))
    hyper = replace(card.hyperparameters(), alpha=0.5)
    settings = TrainingSettings(lr=0.1, momentum=0.0, batch_size=8)
    learner = card.load_learner()(model, settings, hyper, card.sends(model, hyper))
    plain = METHODS["fedavg"].load_learner()(
        model, settings, METHODS["fedavg"].hyperparameters(), card.sends(model, hyper)
    )
    rng = np.random.default_rng(4)
    x, y = rng.normal(size=(8, 2)).astype(np.float32), rng.integers(0, 3, 8)
    data, turn = stack(["a"], [x], [y]), Turn(1, 9, 0)
    state = learner.init(1, 0)
    state["drift.model.linear1.bias"] += 2.0
    after, _, _ = learner.fit(state, [Bundle()], data, turn)
    theirs, _, _ = plain.fit(plain.init(1, 0), [Bundle()], data, turn)
    moved = after["model.linear1.bias"] - theirs["model.linear1.bias"]
    torch.testing.assert_close(moved, torch.full((1, 4), 0.1 * 2.0))
    away = after["model.linear1.bias"] - state["model.linear1.bias"]
    torch.testing.assert_close(after["drift.model.linear1.bias"], 2.0 - 0.5 * away)


@pytest.mark.parametrize("name", EXITS)
def test_clients_of_the_first_level_never_change_later_exits(name: str) -> None:
    strategy = server(name, {"a": 1.0, "b": 0.2})
    drawn, turn = strategy.model.init(1, 0), Turn(1, 9, 0)
    state = {n: t[0] for n, t in drawn.items()}
    if name == "depthfl":
        state |= {f"drift/{n}": torch.zeros_like(t[0]) for n, t in drawn.items()}
    whole, part = strategy.half.downloads(state, strategy.round(turn), ["a", "b"])
    assert "exit2.weight" in whole.tensors and "exit2.weight" not in part.tensors
    after, _ = strategy.half.aggregate(state, strategy.round(turn), {"b": returned(part, 7.0)})
    assert torch.equal(after["exit2.weight"], state["exit2.weight"])
    assert not torch.equal(after["exit1.weight"], state["exit1.weight"])
    if name == "scalefl":
        both, _ = strategy.half.aggregate(
            state, strategy.round(turn), {"a": returned(whole, 1.0), "b": returned(part, 3.0)}
        )
        held = part.floats("linear1.weight").shape[0]
        assert (both["linear1.bias"][:held] == 2).all() and (both["linear1.bias"][held:] == 1).all()
        assert (both["exit2.weight"] == 1).all()


@pytest.mark.parametrize("name", EXITS)
def test_with_one_exit_and_whole_devices_it_is_fedavg(name: str, run_method: RunMethod) -> None:
    keys: dict[str, Any] = {"model": "mlp", "hidden": "16"}
    hyper: dict[str, Any] = {"weights": "examples"}
    hyper |= {"feddyn": False, "kd": False} if name == "depthfl" else {}
    assert_near_states(run_method(name, hyper=hyper, **keys), run_method("fedavg", **keys))


@pytest.mark.parametrize("name", EXITS)
def test_weak_devices_of_their_own_train_as_in_one_process(
    name: str, run_method: RunMethod, tmp_path: Path
) -> None:
    """Their files predict what was measured, in other runtimes, too."""
    federation = people()
    write_federation(tmp_path / "data", federation)
    keys: dict[str, Any] = {"capacities": SHARES, "data": str(tmp_path / "data"), "rounds": 3}
    keys |= {"lr": 0.05, "batch_size": 16, **DEEP}
    stacked = run_method(name, federation, **keys)
    config = RunConfig(method=name, beside="", device="cpu", threads=1, **keys)
    grid, strategy = DeviceGrid(config, 4), build_strategy(config, name)
    strategy.start(grid)
    assert not strategy.transport.refusals and strategy.state is not None
    assert_equal(strategy.state, stacked.states[-1])
    sizes = [sum(t.numel() for t in grid.saved(i).state.values()) for i in range(4)]
    assert sizes[0] == sizes[3] > sizes[1] > sizes[2]
    assert assert_predicts_what_was_measured(stacked, tmp_path) > 100
    for client in ("p1", "p2", "p3"):
        model = load_model(tmp_path / f"{client}.safetensors")
        assert ("exit1.weight" in model.params) == (name == "depthfl")
    differs = export(load_model(tmp_path / "p1.safetensors"), "onnx", tmp_path / "p1.onnx")
    assert differs is not None and differs < 1e-5


def test_the_deepest_exit_teaches_after_the_first_quarter(run_method: RunMethod) -> None:
    taught, alone = (run_method("scalefl", hyper={"kd": kd}, rounds=4, **DEEP) for kd in (1.0, 0.0))
    same = [
        torch.equal(one["exit1.weight"], other["exit1.weight"])
        for one, other in zip(taught.states, alone.states, strict=True)
    ]
    assert same == [True, False, False, False]


def test_who_comes_back_with_less_depth_sends_whole_tensors_again(tmp_path: Path) -> None:
    write_federation(tmp_path / "data", people())
    keys: dict[str, Any] = {"data": str(tmp_path / "data"), "rounds": 4, "batch_size": 16}
    keys |= {"upload_encoding": "delta", "download_encoding": "delta", **DEEP}
    config = RunConfig(method="depthfl", beside="", device="cpu", threads=1, **keys)
    grid = DeviceGrid(config, 4)
    first = build_strategy(replace(config, rounds=2), "depthfl")
    first.start(grid)
    for context in grid.contexts.values():
        context.run_config["capacities"] = "p2=0.3"
    second = build_strategy(config, "depthfl")
    second.resume(2, dict(first.lasting_state()))
    second.start(grid)
    assert not second.transport.refusals
    saved = grid.saved(1).model
    assert saved is not None and set(saved.params) == {
        f"{layer}.{part}" for layer in ("linear1", "exit1") for part in ("weight", "bias")
    }


def test_a_person_is_tested_with_the_mean_of_all_exits() -> None:
    model = with_all_exits(mlp(2, 3, (4, 5, 6)))
    params, x = model.init(2, 1), torch.randn(2, 3, 2, generator=torch.Generator().manual_seed(1))
    predictor = MeanOfExits(model)
    said = torch.stack(model.outputs(params, x)).mean(0)
    assert torch.equal(predictor.forward(params, x), said)
    module = predictor.to_torch({name: tensor[0] for name, tensor in params.items()})
    torch.testing.assert_close(module(x[0]), said[0])
    assert MeanOfExits.described(Chain(model.layers, (2,)), predictor.describe()) == predictor


def test_depthfl_says_whose_model_is_over_its_budget() -> None:
    strategy = server("depthfl", {"a": 1.0, "b": 0.1})
    drawn = strategy.model.init(1, 0)
    state = {n: t[0] for n, t in drawn.items()}
    state |= {f"drift/{n}": torch.zeros_like(t[0]) for n, t in drawn.items()}
    sent = strategy.half.downloads(state, strategy.round(Turn(1, 9, 0)), ["a", "b"])
    uploads = {c: returned(b, 0.0) for c, b in zip("ab", sent, strict=True)}
    rows = strategy.half.aggregate(state, strategy.round(Turn(1, 9, 0)), uploads)[1]
    assert [row.client for row in rows if row.metric == "over_budget"] == ["b"]
