"""FedSub whose server learns sums alone: everybody's means of units that enough people use."""

import logging
from dataclasses import replace
from functools import partial
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from torch import Tensor

from fedsub_client.methods.fedsub.summed import SummedFedSubLearner
from fedsub_client.parts.counted_rows import LAST, ROUND
from fedsub_client.protections.vectors import ASKED_FOR, Repeated, Vectors
from fedsub_core import addend_numbers
from fedsub_core.addends import Addend
from fedsub_core.methods.fedsub import FedSubHyperparameters, sends
from fedsub_core.methods.fedsub_sums import ASKED, COUNTED, PEOPLE, USED, adds_units
from fedsub_core.models.kinds import mlp
from fedsub_core.secure.quantise import Levels
from fedsub_core.secure.slots import levels_of
from fedsub_core.secure.uploads import NO_VECTOR
from fedsub_core.training import TrainingSettings
from fedsub_core.wire.bundles import Bits, Bundle, Floats
from strategies.methods.fedsub.summed import KNOWN, MEANS, SummedFedSubServer
from strategies.rounds.context import SumRequest
from strategies.rounds.round import Round as Asking

from ...finished_run import FinishedRun, MakePeople, RunMethod
from ...lost_replies import lost
from .equations import Array, Round, by_class, reference, rounds

SUMS: dict[str, Any] = dict(
    robust="none",
    lr=0.05,
    batch_size=16,
    hidden="8",
    standardise="client",
    secure_aggregation=True,
)
ONE: dict[str, Any] = {"k_selection": "fixed:1", "fusion": "avg"}
LAYERS = ("linear1", "linear2")


@given(round=rounds)
@settings(max_examples=60, deadline=None)
def test_a_device_mixes_as_avg_does_with_one_cluster_of_a_class(round: Round) -> None:
    """Where all classes of a person use the same units: then everybody's means are each class's."""
    rows, masks, _, _, _ = round
    rows = np.concatenate([rows, rows[..., :1]], 2)  # a weight and a bias at least
    n, classes, units = masks.shape
    masks = np.repeat(masks.any(1, keepdims=True), classes, axis=1)
    one, inside = np.zeros((n, classes), int), np.ones((n, classes), bool)
    expected, replaces = reference("avg", rows, masks, one, inside, inside * 1.0)
    model = mlp(rows.shape[2] - 1, classes, (units,))
    hyper = FedSubHyperparameters(**ONE, depth=1)
    learner = SummedFedSubLearner(
        model, TrainingSettings(), hyper, sends(model, hyper), adds=adds_units(model, hyper)
    )
    state = learner.init(n, 0)
    state["model.linear1.weight"] = torch.from_numpy(rows[:, :, :-1].copy())
    state["model.linear1.bias"] = torch.from_numpy(rows[:, :, -1].copy())
    state[LAST + "linear1" + USED] = torch.from_numpy(masks)
    means = by_class(rows, masks).astype(np.float32)
    known: Array = np.logical_or.reduce(masks, axis=(0, 1))
    counted = Floats(np.array([1, 1], np.float32))
    bundle = Bundle(tensors={COUNTED: counted, "linear1": Floats.rows(known, means[known])})
    after = learner.receive(state, [bundle] * n)
    weight, bias = after["model.linear1.weight"], after["model.linear1.bias"]
    fused = torch.cat([weight, bias[..., None]], 2).numpy()
    np.testing.assert_allclose(fused[replaces], expected[replaces], rtol=1e-4, atol=1e-4)
    np.testing.assert_array_equal(fused[~replaces], rows[~replaces])


def watched(run_method: RunMethod, federation: Any, **keys: Any) -> tuple[FinishedRun, Any]:
    """Return a run, and what each person keeps after each of its rounds."""
    kept: list[dict[str, dict[str, Tensor]]] = []

    def note(round: int, run: FinishedRun) -> None:
        states = run.client_states()
        kept.append({c: {n: t.clone() for n, t in s.items()} for c, s in states.items()})

    run = run_method(federation, "fedsub", after_round=note, **{"hyper": ONE} | SUMS | keys)
    return run, kept


def used(state: dict[str, Tensor], name: str) -> Array:
    """Return which units a person's classes used when they were counted last."""
    found: Array = state[LAST + name + USED].view(3, -1).bool().numpy()
    return found


def rows_of(state: dict[str, Tensor], name: str) -> Array:
    weight, bias = state[f"model.{name}.weight"], state[f"model.{name}.bias"]
    found: Array = torch.cat([weight, bias[:, None]], 1).numpy()
    return found


def test_means_are_everybodys_by_class_of_who_was_counted_before(
    people: MakePeople, run_method: RunMethod
) -> None:
    """The third round begins with rows of others."""
    run, kept = watched(run_method, people(((0, 1, 2),) * 4 + ((0, 1),)), rounds=3)
    first, second, _ = run.states
    for name in LAYERS:
        counted = np.stack([used(s, name) for s in kept[0].values()])
        assert first[name + USED].tolist() == counted.any(1).sum(0).tolist()
        assert not first[name + KNOWN].any()
        # Three must use a unit, and one of five may go silent.
        known = counted.any(1).sum(0) >= 4
        assert second[name + KNOWN].tolist() == known.tolist() and known.any()
        rows = np.stack([rows_of(s, name) for s in kept[1].values()])
        expected = by_class(rows, counted) * known[:, None]
        np.testing.assert_allclose(second[name + MEANS], expected, atol=1e-5)
    local = run_method(people(((0, 1, 2),) * 4 + ((0, 1),)), "local", **SUMS | {"rounds": 3})
    for client, state in local.client_states().items():
        for other in kept[1], kept[2]:
            same = torch.equal(other[client]["model.linear1.weight"], state["model.linear1.weight"])
            assert not same
    assert run.metric("secure_people") == {(n, ""): 5 for n in (1, 2, 3)}


def test_after_a_lost_sum_people_are_counted_anew(
    people: MakePeople, run_method: RunMethod
) -> None:
    """Devices go by what they said in the round that was lost: nobody knows how many that were."""
    silent = lost("train", "p1", "p4", round=2)
    run, _ = watched(run_method, people(), tamper=silent, rounds=4)
    assert list(run.metric("secure_lost")) == [(2, "")]
    assert run.states[1]["counted"].tolist() == [0, 0]
    for name in LAYERS:
        assert not run.states[1][name + USED].any() and not run.states[2][name + KNOWN].any()
        assert run.states[2][name + USED].any()
    assert run.states[3]["linear1.known"].any()


def test_a_class_of_one_person_is_asked_for_by_nobody(
    people: MakePeople, run_method: RunMethod
) -> None:
    """Its output row would be that person's, whatever else is asked for in the round."""
    made = people(((0, 1),) * 4 + ((0, 1, 2),))
    run, kept = watched(run_method, made, hyper=ONE | {"lrp_start": "target"}, rounds=4)
    single = kept[-1]["client/p5"]
    assert used(single, "linear2")[2, 2] and used(single, "linear1")[2].any()
    for state in run.states:
        least = state["linear2" + USED] >= 4
        assert not (state["linear2" + KNOWN] & ~least).any()
    asked = [one.values for _, one in tensors_named(run, "linear2" + ASKED)]
    assert asked and not any(np.unpackbits(np.frombuffer(one, np.uint8))[2] for one in asked)
    assert not run.states[-1]["linear2" + MEANS][2].any()


def tensors_named(run: FinishedRun, name: str) -> list[tuple[Any, Any]]:
    """Return the tensors of downloads that have a name."""
    return [
        (key, tensor)
        for key, sent in run.grid.downloads.items()
        for tensor in sent.message.tensors
        if tensor.name == name
    ]


def test_people_who_go_silent_open_no_unit_of_fewer_than_it_takes(
    people: MakePeople, run_method: RunMethod
) -> None:
    """Of six people four use a unit: with two of these silent the sum stays closed."""
    run, _ = watched(run_method, people(((0, 1, 2),) * 6), rounds=1)
    half, round = run.strategy.half, run.strategy.round(2)
    assert isinstance(half, SummedFedSubServer)
    state = dict(run.states[0])
    for name in LAYERS:
        state[name + USED] = torch.zeros_like(state[name + USED])
    state["linear1" + USED][:2] = torch.tensor([4, 3])
    asked = half.sum_request(state, round, round.clients)
    assert asked is not None and asked.opened_of == 5
    assert asked.detail["linear1" + ASKED].tolist() == [True] + [False] * 7


def test_it_is_said_once_that_nothing_is_fused(
    people: MakePeople, run_method: RunMethod, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, "fedsub"):
        keys: dict[str, Any] = {"secure_least": 4, "rounds": 4}
        run, _ = watched(run_method, people(), **keys)
    assert not any(s[name + KNOWN].any() for s in run.states for name in LAYERS)
    said = [r.getMessage() for r in caplog.records if "nothing is fused" in r.getMessage()]
    assert said == ["no unit is used by 5 people for sure: nothing is fused"]


def test_weak_devices_are_in_no_sum_and_train_alone(
    people: MakePeople, run_method: RunMethod
) -> None:
    keys = SUMS | {"rounds": 3, "capacities": "1,1,1,1,1/2"}
    run = run_method(people(((0, 1, 2),) * 5), "fedsub", hyper=ONE, **keys)
    assert run.metric("secure_people") == {(n, ""): 4 for n in (1, 2, 3)}
    assert not sum(run.refusals.values())


def test_a_forgotten_person_is_counted_no_more(people: MakePeople, run_method: RunMethod) -> None:
    run, _ = watched(run_method, people(), rounds=1)
    left = run.strategy.half.without(run.states[-1], "p1")
    assert left.keys() == run.states[-1].keys() - {"counted.in/p1"}


def test_a_device_that_does_not_know_that_it_was_counted_is_silent(
    people: MakePeople, run_method: RunMethod
) -> None:
    """As after losing its state: zeros of it would count as somebody's, and of too few others."""

    def forget(round: int, run: FinishedRun) -> None:
        if round == 2:
            run.grid.grid.cohorts[0].state[ROUND][0] = 0

    keys = SUMS | {"rounds": 4}
    run = run_method(people(((0, 1, 2),) * 5), "fedsub", hyper=ONE, after_round=forget, **keys)
    assert run.metric("secure_people") == {(1, ""): 5, (2, ""): 5, (3, ""): 4, (4, ""): 5}


@pytest.mark.parametrize("same", [True, False])
def test_a_repeated_round_that_asks_for_something_else_gets_no_vector(same: bool) -> None:
    """What was made ready would add what is not asked for, and lack what is."""
    asked = np.array([True, False])
    state = {ASKED_FOR: torch.tensor([addend_numbers.digest_of(asked)])}
    now = Bundle(tensors={"a.asked": Bits(asked if same else ~asked)})
    before, levels = Levels.of_people(4, 30, 8.0), Levels.of_people(3, 30, 8.0)
    vector = levels_of(before).vector(np.array([1.0, 2.5]), 1)
    learner: Any = SimpleNamespace(adds=[Addend("a", (2,), "a.asked")], weighted={})
    learner.asked = partial(Vectors.asked, learner)
    found = Vectors.vector_again(learner, vector, Repeated(before, levels, 30, state, now))
    expected = levels_of(levels).vector(np.array([1.0, 2.5]), 1) if same else NO_VECTOR
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize(
    ("lie", "units"),
    [
        (lambda who, classes: (who, classes), 1),
        (lambda who, classes: (who, 0), 0),  # counted without a value
        (lambda who, classes: (who, -classes), 0),
        (lambda who, classes: (who, who - 1), 0),  # fewer classes than people
        (lambda who, classes: (who, 3 * who + 1), 0),  # more than they can have
        (lambda who, classes: (2, classes), 0),  # fewer people than it takes
        (lambda who, classes: (5, classes), 0),  # more than there are
    ],
)
def test_counts_that_nobody_can_have_led_to_say_no_mean(
    lie: Any, units: int, people: MakePeople, run_method: RunMethod
) -> None:
    """What else a person adds under masks is not seen: it moves a mean as an upload would."""
    run, _ = watched(run_method, people(), rounds=2)
    half, state = run.strategy.half, run.states[0]
    assert isinstance(half, SummedFedSubServer)
    asked = {
        f"{name}.asked": np.arange(units) < 1 for name, units in (("linear1", 8), ("linear2", 3))
    }
    round = asking(run.strategy.round(2), asked)
    parts = {one.name: np.zeros(one.shape) for one in half.adds(round.model)}
    parts["linear1" + PEOPLE][0] = lie(4, 9)
    parts["linear1"][0] = 4.5
    after, _ = half.aggregate_sum(state, round, opened(half, round, parts), {})
    assert int(after["linear1" + KNOWN].sum()) == units
    expected = torch.full((5,), 0.5 if units else 0.0)
    torch.testing.assert_close(after["linear1" + MEANS][0], expected)
    assert not after["linear2" + KNOWN].any() and not after["linear2" + MEANS].any()


@pytest.mark.parametrize("count", [-1.0, 5.0])
def test_a_sum_of_more_people_than_there_are_is_of_no_use(
    count: float, people: MakePeople, run_method: RunMethod
) -> None:
    run, _ = watched(run_method, people(), rounds=2)
    half, nothing = run.strategy.half, {f"linear{i}.asked": np.zeros(n, bool) for i, n in UNITS}
    assert isinstance(half, SummedFedSubServer)
    round = asking(run.strategy.round(3), nothing)
    parts = {one.name: np.zeros(one.shape) for one in half.adds(round.model)}
    parts["linear1" + USED][2] = count
    total = opened(half, round, parts)
    said = "0 to 5" if count > 0 else "-1 to 0"
    assert half.fault(run.states[1], round, total) == f"{said} people, expected 0 to 4"
    after, _ = half.aggregate_sum(run.states[1], round, None, {})
    assert not any(after[name + end].any() for name in LAYERS for end in (USED, KNOWN))


#: Units of each layer, by its number.
UNITS = ((1, 8), (2, 3))


def asking(round: Asking, asked: dict[str, np.ndarray]) -> Asking:
    """Return a round that asks for these units."""
    return replace(round, requested=SumRequest(round.clients, 0, 1.0, detail=asked))


def opened(half: SummedFedSubServer, round: Asking, parts: dict[str, Array]) -> Any:
    """Return a sum of four people whose slots are these parts."""
    every = np.concatenate([one.ravel() for one in parts.values()])
    assert round.requested is not None
    numbers = every[addend_numbers.asked_for(half.adds(round.model), round.requested.detail)]
    levels = Levels.of_people(4, 1, 8.0)
    sums = levels_of(levels).vector(numbers, 1)[:-2].astype(np.int32)
    of = sums * (levels.range / levels.each)
    total = SimpleNamespace(sum=of)
    return SimpleNamespace(total=total, levels=levels, clients=("p1", "p2", "p3", "p4"))


def test_each_units_rows_have_one_slot_whatever_its_classes() -> None:
    """Of two slots whose people differ in one, the difference would be that person's row."""
    model = mlp(4, 3, (8,))
    adds = adds_units(model, FedSubHyperparameters())
    rows = {own.name: layer.units for layer in model.affine for own in layer.rows}
    assert {one.name: one.shape for one in adds if one.name in rows} == {
        "linear1": (8, 5),
        "linear2": (3, 9),
    }
