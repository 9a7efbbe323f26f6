"""Weak devices that hold some units of each layer: numbers by hand, and what must not differ."""

from collections.abc import Mapping
from dataclasses import replace
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from fedsub.engines.simulation import build_strategy
from fedsub.report.maps import people_scores
from fedsub.report.reading import read_run
from fedsub.report.report import write_report
from fedsub.studies.run import train_methods
from fedsub.testing.device_grid import DeviceGrid
from fedsub.testing.halves import HalfAlone
from fedsub.testing.refusals import refused
from fedsub.testing.runs import RunMethod, assert_equal, assert_near_states, people
from fedsub_core.config.capacities import check_capacities
from fedsub_core.config.robust import RobustSettings
from fedsub_core.config.run_config import RunConfig, dump_toml
from fedsub_core.data.federation import write_federation
from fedsub_core.data.stacks import stack
from fedsub_core.errors import ConfigError, MessageRefused
from fedsub_core.methods.table import METHODS
from fedsub_core.metrics import MetricRow
from fedsub_core.models.chain import Chain
from fedsub_core.models.kinds import mlp
from fedsub_core.training import TrainingSettings, Turn
from fedsub_core.wire.bundles import Bundle, Floats
from fedsub_core.wire.codec import Address, decode_upload, encode_upload
from fedsub_core.wire.encoding import WireSettings
from fedsub_core.wire.envelope import Envelope
from fedsub_server.results import summarise_run
from fedsub_server.rundb import RunDatabase
from strategies.rounds.round import Round
from strategies.rounds.undoing import Undoing

from ..fedsub_core.models.modules import MODULES

SHARES = "p2=0.5,p3=0.25"
LACKING = people(((0, 1, 2), (0, 1), (2,), (0, 1, 2)))


def server(
    name: str, model: Chain, weak: Mapping[str, float], robust: str = "clip", **hyper: Any
) -> HalfAlone:
    """Return a server half that knows its model and what weak clients hold of it."""
    return HalfAlone.of(name, model, weak, {"robust": robust}, **hyper)


def returned(strategy: HalfAlone | Round, client: str, value: float, samples: int) -> Bundle:
    """Return an upload of a client all of whose numbers are `value`."""
    shapes = strategy.held_by(client).parameter_shapes
    tensors = {n: Floats(np.full(shape, value, np.float32)) for n, shape in shapes.items()}
    return Bundle(samples, tensors=tensors)


@pytest.mark.parametrize(
    "name, weights, shared, others",
    [
        ("heterofl", "clients", 2.0, 3.0),
        ("heterofl", "examples", 2.5, 3.0),
    ],
)
def test_a_number_is_the_mean_over_who_holds_it(
    name: str, weights: str, shared: float, others: float
) -> None:
    """2-4-2 of zeros; who has all returns 3 with 30 samples, who has half 1 with 10."""
    strategy = server(name, mlp(2, 2, (4,)), {"b": 0.5}, "none", weights=weights)
    state = {n: torch.zeros(shape) for n, shape in strategy.model.parameter_shapes.items()}
    uploads = {"a": returned(strategy, "a", 3.0, 30), "b": returned(strategy, "b", 1.0, 10)}
    after, _ = strategy.half.aggregate(state, strategy.round(Turn(1, 9, 0)), uploads)
    assert after["linear1.weight"].tolist() == [[shared] * 2] * 2 + [[others] * 2] * 2
    assert after["linear1.bias"].tolist() == [shared, shared, others, others]
    assert after["linear2.weight"].tolist() == [[shared, shared, others, others]] * 2
    assert after["linear2.bias"].tolist() == [shared, shared]


def test_half_of_four_units_are_twelve_of_twenty_two_numbers() -> None:
    strategy = server("heterofl", mlp(2, 2, (4,)), {"b": 0.5, "c": 0.5})
    state = {n: t[0] for n, t in strategy.model.init(1, 0).items()}
    whole, part, same = strategy.half.downloads(
        state, strategy.round(Turn(1, 9, 0)), ["a", "b", "c"]
    )
    sizes = [sum(p.values.size for p in one.tensors.values()) for one in (whole, part)]
    assert sizes == [22, 12] and same is part, "who holds the same is sent the very same"
    np.testing.assert_array_equal(part.floats("linear2.weight"), state["linear2.weight"][:, :2])
    # What nobody holds stays as it was, to the bit.
    uploads = {client: returned(strategy, client, 5.0, 10) for client in ("b", "c")}
    after, _ = strategy.half.aggregate(state, strategy.round(Turn(1, 9, 0)), uploads)
    assert torch.equal(after["linear1.weight"][2:], state["linear1.weight"][2:])
    assert torch.equal(after["linear2.weight"][:, 2:], state["linear2.weight"][:, 2:])
    assert not torch.equal(after["linear1.weight"][:2], state["linear1.weight"][:2])


def learner(name: str, model: Chain, **hyper: Any) -> Any:
    card = METHODS[name]
    given = replace(card.hyperparameters(), **hyper)
    settings = TrainingSettings(lr=1.0, momentum=0.0, batch_size=1)
    return card.load_learner()(model, settings, given, card.sends(model, given))


def test_with_a_masked_loss_a_lacking_class_has_logit_0() -> None:
    """Logits (2, 1, 5) of who lacks the third class: softmax of (2, 1, 0) is .665, .245, .090."""
    model = mlp(1, 3, ())
    device = learner("heterofl", model)
    bias = torch.tensor([[2.0, 1.0, 5.0]])
    state = device.put({"linear1.weight": torch.zeros(1, 3, 1), "linear1.bias": bias}, "model")
    # Class 0 alone would lack class 1, too: a sample of each, one step on the first.
    data = stack(["a"], [np.zeros((2, 1), np.float32)], [np.array([0, 1])])
    after, (upload,), _ = device.fit(state, [Bundle()], data, Turn(1, 1, 0))
    share = torch.tensor([2.0, 1.0, 0.0]).softmax(0)
    np.testing.assert_allclose(share, [0.665, 0.245, 0.090], atol=5e-4)
    trained = device.get(after, "model")["linear1.bias"][0]
    assert trained[2] == 5.0, "what it lacks stays as it came"
    part = upload.part("linear1.bias")
    assert part.at.rows is not None and part.at.rows.tolist() == [0, 1]
    np.testing.assert_array_equal(part.values, trained[:2])
    # Two steps at rate 1, of one sample each: by hand.
    expected = by_hand(torch.tensor([2.0, 1.0, 0.0]), trained)
    torch.testing.assert_close(trained[:2], expected)


def by_hand(start: Tensor, like: Tensor) -> Tensor:
    """Return the two biases after a step on either sample, in the order that was drawn."""
    ends = []
    for order in ((0, 1), (1, 0)):
        logits = start.clone()
        for y in order:
            gradient = logits.softmax(0) - torch.eye(3)[y]
            gradient[2] = 0.0
            logits -= gradient
        ends.append(logits[:2])
    return min(ends, key=lambda one: float((one - like[:2]).abs().sum()))


@pytest.mark.parametrize("name", ["heterofl"])
def test_where_all_hold_all_it_is_fedavg(name: str, run_method: RunMethod) -> None:
    ours = run_method(name, LACKING, hyper={"weights": "examples", "masked_loss": False})
    theirs = run_method("fedavg", LACKING)
    assert_near_states(ours, theirs)


@pytest.mark.parametrize("name", ["heterofl"])
def test_a_weak_device_holds_trains_and_sends_its_part_alone(
    name: str, run_method: RunMethod
) -> None:
    run = run_method(name, capacities=SHARES)
    whole = sum(prod(shape) for shape in run.strategy.model.parameter_shapes.values())
    sent = run.metric("bytes_up_sent")
    for client, share in (("p1", 1.0), ("p2", 0.5), ("p3", 0.25)):
        kept = sum(t.numel() for n, t in run.client_state(client).items() if "linear" in n)
        assert kept / whole == pytest.approx(share**2, abs=0.02)
        assert sent[3, client] / sent[3, "p1"] == pytest.approx(share**2, abs=0.03)
        assert len(run.models()[client]["linear1.bias"]) == 128 * share
    assert not run.metric("refused_replies")


@pytest.mark.parametrize("name", ["heterofl"])
def test_each_on_a_device_of_its_own_they_train_as_in_one_process(
    name: str, run_method: RunMethod, tmp_path: Path
) -> None:
    write_federation(tmp_path / "data", LACKING)
    keys: dict[str, Any] = {"capacities": SHARES, "data": str(tmp_path / "data"), "rounds": 3}
    keys |= {"lr": 0.05, "batch_size": 16}
    stacked = run_method(name, LACKING, **keys)
    config = RunConfig(method=name, beside="", device="cpu", threads=1, **keys)
    grid, strategy = DeviceGrid(config, len(LACKING.clients)), build_strategy(config, name)
    strategy.start(grid)
    assert not strategy.transport.refusals and strategy.state is not None
    assert_equal(strategy.state, stacked.states[-1])
    saved = grid.saved(2).model
    assert saved is not None and saved.params["linear1.weight"].shape == (32, 4)


def test_an_upload_that_does_not_fit_the_capacity_that_was_said_is_refused(
    run_method: RunMethod,
) -> None:
    run = run_method("heterofl", hyper={"masked_loss": False}, capacities=SHARES)
    strategy = run.strategy
    sends = strategy.round(4).sent_by("p2")
    large = returned(strategy.round(4), "p1", 1.0, 9)
    wire = WireSettings()
    payload = encode_upload(large, Address("p2", 4), strategy.round(4).sends, wire.upload)
    with refused(MessageRefused, client="p2", round=4, what="size"):
        decode_upload(payload, Envelope("p2", 4, sends, None, wire.limit, wire.largest))


def test_local_trains_what_a_device_can_hold(run_method: RunMethod) -> None:
    run = run_method("local", capacities=SHARES)
    assert [len(run.models()[f"p{i}"]["linear1.bias"]) for i in (1, 2, 3)] == [128, 64, 32]


def test_results_say_what_people_of_each_capacity_reached(tmp_path: Path) -> None:
    write_federation(tmp_path / "data", LACKING)
    keys: dict[str, Any] = {"data": str(tmp_path / "data"), "out": str(tmp_path), "rounds": 2}
    keys |= {"capacities": "p2=1/2,p3=1/4"}
    config = RunConfig(method="heterofl", beside="fedavg", threads=1, **keys)
    folder = tmp_path / "run"
    folder.mkdir()
    (folder / "run.toml").write_text(dump_toml(config))
    train_methods(config, LACKING, folder, lambda name, round: None)
    found = summarise_run(folder)["methods"]
    for name in ("heterofl", "fedavg"):
        assert {s: f["people"] for s, f in found[name]["by_capacity"].items()} == {
            "1": 2,
            "0.5": 1,
            "0.25": 1,
        }
    people, _, scores = people_scores(read_run(folder))
    by_person = dict(zip(people, scores.tolist(), strict=True))
    assert found["heterofl"]["by_capacity"]["0.25"]["macro_f1"] == by_person["p3"][0]
    write_report(folder)
    assert "capacity" in (folder / "report.html").read_text()
    lines = (folder / "tables" / "capacities.csv").read_text().splitlines()
    assert len(lines) == 1 + 2 * 3
    held = (folder / "tables" / "people_capacities.csv").read_text().splitlines()
    shares = {"p1": 1.0, "p2": 0.5, "p3": 0.25, "p4": 1.0}
    assert held[1:5] == [f"0,heterofl,1,{who},{share}" for who, share in shares.items()]
    assert "drawn from the seed once" in (folder / "report.html").read_text()


@pytest.mark.parametrize("text", ["1/0", "2/1", "0/4", "1/", "a/4", "1/-4"])
def test_a_capacity_that_is_no_share_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match=r"expected a share in \(0, 1\]"):
        check_capacities(text)


def test_a_weak_person_whose_model_diverged_ends_no_summary(tmp_path: Path) -> None:
    row = MetricRow(1, "weak", None, "loss", float("inf"))
    rows = [row, *(MetricRow(1, "weak", None, name, 0.5) for name in ("macro_f1", "capacity"))]
    folder = tmp_path / "heterofl"
    folder.mkdir()
    with RunDatabase(folder / "state.db", {"method": "heterofl"}) as database:
        database.commit(1, {}, rows)
    found = summarise_run(tmp_path)["methods"]["heterofl"]["by_capacity"]
    assert found == {"0.5": {"people": 1, "macro_f1": 0.5}}


@pytest.mark.parametrize("name", ["heterofl"])
def test_differences_begin_anew_with_who_comes_back_with_another_capacity(
    name: str, tmp_path: Path
) -> None:
    write_federation(tmp_path / "data", people())
    keys: dict[str, Any] = {"data": str(tmp_path / "data"), "rounds": 4, "batch_size": 16}
    keys |= {"upload_encoding": "delta", "download_encoding": "delta"}
    config = RunConfig(method=name, beside="", device="cpu", threads=1, **keys)
    grid, first = DeviceGrid(config, 4), build_strategy(replace(config, rounds=2), name)
    first.start(grid)
    for context in grid.contexts.values():
        context.run_config["capacities"] = "p2=0.5"
    second = build_strategy(config, name)
    second.resume(2, dict(first.lasting_state()))
    second.start(grid)
    assert not second.transport.refusals
    saved = grid.saved(1).model
    assert saved is not None and saved.params["linear1.weight"].shape == (64, 4)


def test_undoing_sees_how_far_a_weak_devices_rows_moved() -> None:
    """Of its last layer it sends the rows of its classes: these alone, less what it was sent."""
    strategy, turn = server("heterofl", mlp(2, 3, (4,)), {"weak": 0.5}), Turn(1, 9, 0)
    state = {n: torch.full(shape, 5.0) for n, shape in strategy.model.parameter_shapes.items()}
    (sent,) = strategy.half.downloads(state, strategy.round(turn), ["weak"])
    shapes = strategy.held_by("weak").parameter_shapes
    tensors = {n: Floats(np.full(shape, 6.0, np.float32)) for n, shape in shapes.items()}
    classes = np.array([True, False, True])
    for name in ("linear2.weight", "linear2.bias"):
        tensors[name] = Floats.rows(classes, tensors[name].values[classes])
    upload, download = (
        {"weak": strategy.half.placed(state, strategy.round(turn), "weak", one)}
        for one in (Bundle(9, tensors=tensors), sent)
    )
    undoing = Undoing(RobustSettings())
    undoing.note(state, upload, download, strategy.round().sends)
    (done,) = undoing._done
    (move,) = done.moves
    assert set(move.tolist()) == {0.0, 1.0}
    assert move.sum() == 2 * 2 + 2 + 2 * 2 + 2


def test_a_model_with_dropout_is_made_smaller_without_a_draw(run_method: RunMethod) -> None:
    file = Path(__file__).parents[1] / "fedsub_core/models/modules.py"
    model = f"{file}:{MODULES['normalised'].__name__}"
    run = run_method("heterofl", capacities=SHARES, model=model, rounds=2)
    models = run.models()
    sizes = [sum(t.numel() for t in models[f"p{i}"].values()) for i in (1, 2, 3)]
    assert sizes[0] > sizes[1] > sizes[2] and not run.metric("refused_replies")
