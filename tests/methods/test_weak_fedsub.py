"""FedSub among devices that hold some units: numbers by hand, and what must not differ."""

from collections.abc import Sequence
from dataclasses import replace
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from fedsub.engines.simulation import build_strategy
from fedsub.testing.device_grid import DeviceGrid
from fedsub.testing.halves import HalfAlone
from fedsub.testing.runs import RunMethod, assert_equal, people
from fedsub_client.methods.fedsub.subnetworks import first_units_of
from fedsub_core.config.run_config import RunConfig
from fedsub_core.data.federation import write_federation
from fedsub_core.methods.fedsub import CLASSES, FUSIONS, MASKS, PROTOTYPES, SCORE
from fedsub_core.methods.table import METHODS
from fedsub_core.models.architecture import UnitRows
from fedsub_core.models.chain import Chain
from fedsub_core.models.kinds import cnn1d, mlp
from fedsub_core.models.model import Model, unit_rows
from fedsub_core.models.torch_model import TorchModel
from fedsub_core.models.units import first_units
from fedsub_core.turn import Turn
from fedsub_core.wire.bundles import Bits, Bundle, Floats, Part
from strategies.methods.fedsub.bounds import LONGEST
from strategies.methods.fedsub.holdings import HeldPart, comparable

from ..fedsub_core.models.modules import MODULES

SHARES = "p2=0.5,p3=0.25"
LACKING = people(((0, 1, 2), (0, 1), (2,), (0, 1, 2)))
BOTH = ("fedsub", "fedsub-gated")
#: Layers linear1 [4, 2 + 1] and linear2 [3, 4 + 1]; of half of it [2, 2 + 1] and [3, 2 + 1].
MODEL = mlp(2, 3, (4,))


def server(model: Chain = MODEL, weak: dict[str, float] | None = None, **hyper: Any) -> HalfAlone:
    """Return FedSub's server half with one cluster a class, and clients of capacities."""
    keys = {"robust": "none"}
    strategy = HalfAlone.of("fedsub", model, weak, keys, k_selection="fixed:1", **hyper)
    strategy.state = strategy.half.init(strategy.start())
    return strategy


def said(
    model: Model,
    value: float,
    classes: Sequence[int] = (0, 1, 2),
    stream: np.random.Generator | None = None,
    own_outputs: bool = False,
) -> Bundle:
    """Return an upload whose rows are `value`, or drawn as is which units a class selects.

    Else each class selects all, or with `own_outputs` of the last layer its own.
    """
    held = np.isin(np.arange(3), classes)
    tensors: dict[str, Part] = {
        CLASSES: Bits(held),
        SCORE: Floats(held.astype(np.float32)),
        PROTOTYPES: Floats.rows(held, np.ones((held.sum(), 2), np.float32)),
    }
    for layer in model.affine:
        masks = held[:, None] & np.ones(layer.units, np.bool_)
        if own_outputs and layer is model.affine[-1]:
            masks &= np.eye(3, dtype=np.bool_)
        if stream is not None:
            masks &= stream.random(masks.shape) > 0.1
        rows = np.asarray(masks.any(axis=0))
        shape = (int(rows.sum()), layer.fan_in + 1)
        values = np.full(shape, value) if stream is None else stream.normal(size=shape)
        tensors[layer.name] = Floats.rows(rows, values.astype(np.float32))
        tensors[layer.name + MASKS] = Bits(masks)
    return Bundle(9, 1, tensors)


def sent(strategy: HalfAlone, uploads: dict[str, Bundle]) -> dict[str, Bundle]:
    """Return what each client is sent after a round of these uploads."""
    assert strategy.state is not None
    state, _ = strategy.half.aggregate(
        strategy.state, strategy.round(Turn(1, 9, 0)), dict(sorted(uploads.items()))
    )
    return dict(
        zip(
            uploads,
            strategy.half.downloads(state, strategy.round(Turn(2, 9, 0)), list(uploads)),
            strict=True,
        )
    )


def test_a_number_is_fused_among_those_who_hold_it() -> None:
    """Rows of who has all are 3, of who has half 1: what both hold becomes 2, the rest stays 3."""
    strategy = server(weak={"a": 1.0, "b": 0.5}, fusion="avg")
    found = sent(strategy, {"a": said(MODEL, 3.0), "b": said(strategy.held_by("b"), 1.0)})
    first = found["a"].part("linear1")
    assert first.at.rows is not None and first.at.rows.tolist() == [0, 1], "2 and 3 are its alone"
    assert first.values.tolist() == [[2.0] * 3] * 2
    # Weights of units 0 and 1, of 2 and 3, and the bias, which all have.
    assert found["a"].floats("linear2").tolist() == [[2.0, 2.0, 3.0, 3.0, 2.0]] * 3
    assert found["b"].floats("linear1").tolist() == [[2.0] * 3] * 2
    assert found["b"].floats("linear2").tolist() == [[2.0] * 3] * 3


@pytest.mark.parametrize("fusion", FUSIONS)
def test_where_all_hold_half_it_is_fedsub_of_the_half_model(fusion: str) -> None:
    small, clients = mlp(2, 3, (2,)), ("a", "b", "c")
    stream = np.random.default_rng(2)
    uploads = {c: said(small, 0.0, stream=stream) for c in clients}
    ours = sent(server(weak=dict.fromkeys(clients, 0.5), fusion=fusion), uploads)
    theirs = sent(server(small, dict.fromkeys(clients, 1.0), fusion=fusion), uploads)
    assert any(bundle.tensors for bundle in theirs.values())
    for client, bundle in theirs.items():
        assert ours[client].tensors.keys() == bundle.tensors.keys()
        for name in bundle.tensors:
            own, expected = ours[client].part(name), bundle.part(name)
            assert own.at == expected.at
            np.testing.assert_allclose(own.values, expected.values, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("fusion", [f for f in FUSIONS if f != "overlapping-additive"])
def test_a_weak_member_changes_nothing_of_what_it_does_not_hold(fusion: str) -> None:
    """Those who hold the other half get of it what they would get without the weak one.

    One fusion is left out: it scales all rows of a layer by their common norm.
    """
    stream = np.random.default_rng(6)
    uploads = {c: said(MODEL, 0.0, stream=stream) for c in ("a", "b")}
    alone = sent(server(weak={"a": 1.0, "b": 1.0}, fusion=fusion), dict(uploads))
    strategy = server(weak={"a": 1.0, "b": 1.0, "weak": 0.5}, fusion=fusion)
    weak = said(strategy.held_by("weak"), 0.0, stream=stream)
    beside = sent(strategy, {**uploads, "weak": weak})
    for client in ("a", "b"):
        assert upper_half(beside[client]) == upper_half(alone[client])
    assert any(upper_half(one) for one in alone.values())
    for name, part in beside["weak"].tensors.items():
        assert isinstance(part, Floats)
        assert part.values.shape[1] == 3 and part.at.rows is not None, name


def upper_half(bundle: Bundle) -> dict[int, list[float]]:
    """Return the rows of the first layer's units that no weak device has, by unit."""
    if "linear1" not in bundle.tensors:
        return {}
    part = bundle.part("linear1")
    assert part.at.rows is not None
    rows = dict(zip(part.at.rows.tolist(), part.values.tolist(), strict=True))
    return {unit: row for unit, row in rows.items() if unit >= 2}


def test_a_row_of_which_not_all_is_known_is_not_sent() -> None:
    """Who lacks class 2 gets a whole output row of it, but not half a one of a weak person."""
    keys: dict[str, Any] = {"fusion": "overlapping-any", "impute": True}
    strategy = server(weak={"a": 1.0, "b": 0.5}, **keys)
    weak = strategy.held_by("b")
    mine = said(MODEL, 3.0, (0, 1), own_outputs=True)
    found = sent(strategy, {"a": mine, "b": said(weak, 1.0, own_outputs=True)})
    rows = found["a"].part("linear2")
    assert rows.at.rows is not None and rows.at.rows.tolist() == [0, 1]
    assert rows.values.tolist() == [[2.0, 2.0, 3.0, 3.0, 2.0]] * 2
    strategy = server(weak={"a": 1.0, "b": 1.0}, **keys)
    found = sent(strategy, {"a": mine, "b": said(MODEL, 1.0, own_outputs=True)})
    assert found["a"].floats("linear2").tolist() == [[2.0] * 5] * 2 + [[1.0] * 5]


@pytest.mark.parametrize("kind", ["cnn1d", *MODULES])
def test_rows_of_a_part_stand_where_its_numbers_do(kind: str) -> None:
    """Every number of a small model's rows is that of the whole one's rows at its place."""
    whole = cnn1d(3, 32, 3) if kind == "cnn1d" else TorchModel.of(MODULES[kind], (3, 20), 3)
    part, places = whole.narrow(first_units(whole, 0.5))
    start, before = {}, 0.0
    for name, shape in whole.tensor_shapes.items():
        start[name] = torch.arange(before, before + prod(shape)).view(1, *shape)
        before += prod(shape)
    small = {name: places[name].take(tensor, 1) for name, tensor in start.items()}
    held = HeldPart.of(whole, 0.5)
    for layer, own in zip(whole.affine, part.affine, strict=True):
        for rows, less in zip(layer.rows, own.rows, strict=True):
            assert isinstance(rows, UnitRows)
            expected = held.rows[rows.name].take(unit_rows(start, rows)[0])
            assert torch.equal(unit_rows(small, less)[0], expected), rows.name


@pytest.mark.parametrize("name", BOTH)
def test_a_weak_device_holds_trains_and_sends_its_part_alone(
    name: str, run_method: RunMethod
) -> None:
    run = run_method(name, LACKING, capacities=SHARES)
    assert not run.metric("refused_replies")
    model = run.strategy.model
    for client, share in (("p1", 1.0), ("p2", 0.5), ("p3", 0.25)):
        own = run.client_state(client)["model.linear1.weight"]
        assert own.shape == (128 * share, 4)
        for upload in run.uploads:
            assert upload[client].bits("linear1.masks").shape == (3, 128 * share)
    # All began as the first units of one model.
    weak = run.grid.cohorts[-1].learner.model
    begun = first_units_of(model, weak, 1, 0)
    whole = model.init(1, 0)
    units, inputs = begun["linear2.weight"].shape[1:]
    assert torch.equal(begun["linear2.weight"], whole["linear2.weight"][:, :units, :inputs])


def test_the_expert_that_nothing_is_fused_with_begins_as_local_does(run_method: RunMethod) -> None:
    names = (*BOTH[1:], "local")
    gated, alone = (run_method(n, LACKING, capacities=SHARES, rounds=1) for n in names)
    name = "linear2.weight"
    for run, key in ((gated, f"local.{name}"), (alone, f"model.{name}")):
        learner = run.grid.cohorts[-1].learner
        start = learner.init(1, 0)[key]
        assert torch.equal(start, learner.model.init(1, 0)[name])
    learner = gated.grid.cohorts[-1].learner
    assert learner.whole is not None
    begun = learner.init(1, 0)
    assert torch.equal(begun[f"fused.{name}"], begun[f"model.{name}"])
    assert not torch.equal(begun[f"fused.{name}"], begun[f"local.{name}"])


@pytest.mark.parametrize("name", BOTH)
def test_with_all_capacities_1_nothing_changes(name: str, run_method: RunMethod) -> None:
    ours = run_method(name, LACKING, capacities="1,1", rounds=2)
    theirs = run_method(name, LACKING, rounds=2)
    assert_equal(ours.states[-1], theirs.states[-1])
    assert ours.metric("loss") == theirs.metric("loss")


@pytest.mark.parametrize("name", BOTH)
def test_each_on_a_device_of_its_own_they_train_as_in_one_process(
    name: str, run_method: RunMethod, tmp_path: Path
) -> None:
    write_federation(tmp_path / "data", LACKING)
    given = replace(METHODS[name].hyperparameters(), k_selection="dbi-capped")
    keys: dict[str, Any] = {"capacities": SHARES, "data": str(tmp_path / "data"), "rounds": 3}
    keys |= {"lr": 0.05, "batch_size": 16}
    stacked = run_method(name, LACKING, hyper={"k_selection": "dbi-capped"}, **keys)
    config = RunConfig(method=name, beside="", device="cpu", threads=1, hyper={name: given}, **keys)
    grid, strategy = DeviceGrid(config, len(LACKING.clients)), build_strategy(config, name)
    strategy.start(grid)
    assert not strategy.transport.refusals and strategy.state is not None
    assert_equal(strategy.state, stacked.states[-1])


@pytest.mark.parametrize("name", BOTH)
def test_who_comes_back_with_another_capacity_begins_anew(name: str, tmp_path: Path) -> None:
    """What was heard of it before is of another shape: it is sent none of that."""
    write_federation(tmp_path / "data", people(((0, 1, 2),) * 3, samples=15))
    keys: dict[str, Any] = {"data": str(tmp_path / "data"), "rounds": 4, "batch_size": 16}
    given = replace(METHODS[name].hyperparameters(), k_selection="fixed:1")
    keys |= {"hyper": {name: given}, "device": "cpu", "threads": 1}
    config = RunConfig(method=name, beside="", **keys)
    grid, first = DeviceGrid(config, 3), build_strategy(replace(config, rounds=2), name)
    first.start(grid)
    for context in grid.contexts.values():
        context.run_config["capacities"] = "p2=0.5"
    second = build_strategy(config, name)
    second.resume(2, dict(first.lasting_state()))
    second.start(grid)
    assert not second.transport.refusals and second.state is not None
    assert second.state["capacity"].tolist() == [1.0, 0.5, 1.0]


@pytest.mark.parametrize("robust", ["clip", "multi-krum", "median"])
def test_filters_take_no_weak_device_for_a_liar(robust: str, run_method: RunMethod) -> None:
    """Most hold an eighth: a whole row is three times as long as theirs, and no longer for that."""
    keys: dict[str, Any] = {"robust": robust, "hyper": {"k_selection": "fixed:1"}, "rounds": 2}
    run = run_method("fedsub", people(), capacities="p2=0.125,p3=0.125,p4=0.125", **keys)
    assert not run.metric("refused_replies")
    if robust == "clip":
        honest = run.uploads[-1]["p1"].part("linear2").values
        assert run.states[-1][LONGEST].min() > 0
        cached = run.states[-1]["rows.linear2"][0]
        np.testing.assert_array_equal(cached[cached.abs().sum(1) > 0], honest)


@pytest.mark.parametrize(("robust", "compared"), [("clip", 256), ("none", 128)])
def test_embeddings_are_compared_by_the_units_that_all_but_a_fifth_have(
    robust: str, compared: int, run_method: RunMethod
) -> None:
    """One of four may lie about its capacity, where anybody may lie."""
    hyper = {"prototype": "embedding", "k_selection": "fixed:2"}
    run = run_method("fedsub", LACKING, hyper=hyper, capacities=SHARES, rounds=2, robust=robust)
    clustered = run.states[-1]["clustered"]
    assert clustered[..., :compared].abs().sum() > 0 and not clustered[..., compared:].any()
    assert run.states[-1]["prototypes"][0, :, 128:].any(), "what is known is kept"


def test_who_says_that_it_has_next_to_nothing_changes_only_where_it_stands_itself() -> None:
    """Of five one has a number of three alone; it counts as the others' mean in the two others."""
    stream = torch.Generator().manual_seed(4)
    prototypes = torch.rand(5, 2, 3, generator=stream)
    present = torch.ones(5, 2, dtype=torch.bool)
    present[0, 1] = False
    held = torch.ones(5, 3, dtype=torch.bool)
    honest = comparable(prototypes, present, held, lacking=1)
    held[4, 1:] = False
    told = comparable(prototypes * held.unsqueeze(1), present, held, lacking=1)
    assert torch.equal(honest, prototypes) and torch.equal(told[:4], honest[:4])
    torch.testing.assert_close(told[4, 0, 1:], prototypes[:4, 0, 1:].mean(0))
    torch.testing.assert_close(told[4, 1, 1:], prototypes[1:4, 1, 1:].mean(0))
    assert torch.equal(told[4, :, 0], prototypes[4, :, 0])
    held[3, 2] = False
    assert not comparable(prototypes, present, held, lacking=1)[..., 2].any(), "two lack it"
