"""Prototypes in secure sums: those of plain runs, and of no class that too few people have."""

from typing import Any

import numpy as np
import pytest
import torch

from fedsub_client.new_cohort import make_learner
from fedsub_client.parts.prototype_means import PrototypeLearner
from fedsub_client.protections.vectors import ASKED_FOR, NUMBERS, Repeated
from fedsub_core.addend_numbers import digest_of
from fedsub_core.method_parts.prototypes import ASKED
from fedsub_core.methods.table import METHODS
from fedsub_core.models.kinds import mlp
from fedsub_core.secure import slots
from fedsub_core.secure.keys import Words
from fedsub_core.secure.quantise import BESIDE, Levels
from fedsub_core.secure.uploads import NO_VECTOR
from fedsub_core.training import TrainingSettings
from fedsub_core.wire.bundles import Bits, Bundle, Floats

from ..finished_run import FinishedRun, MakePeople, RunMethod
from ..lost_replies import lost

PLAIN: dict[str, Any] = dict(
    robust="none", lr=0.05, batch_size=16, hidden="16", standardise="client", rounds=3
)
SUMS = PLAIN | {"secure_aggregation": True}
#: Six people, of whom two alone have class 2.
RARE = ((0, 1), (0, 1), (0, 1), (0, 1), (0, 1, 2), (0, 1, 2))
PROTOTYPES, HELD = "prototypes", "held"


@pytest.mark.parametrize("name", ["protohar", "fedproto"])
def test_without_a_pull_prototypes_are_those_of_a_plain_run(
    name: str, people: MakePeople, run_method: RunMethod
) -> None:
    """They come a round later, for the first round counts who has which class."""
    plain, sums = (run_method(people(), name, hyper={"lam": 0.0}, **k) for k in (PLAIN, SUMS))
    assert not sums.states[0][HELD].any()
    for ours, theirs in zip(sums.states[1:], plain.states[1:], strict=True):
        for key, tensor in theirs.items():
            torch.testing.assert_close(ours[key], tensor, atol=1e-5, rtol=0)
    assert sums.metric("secure_people") == {(1, ""): 4, (2, ""): 4, (3, ""): 4}


def test_prototypes_pull_the_bodies_of_a_run_of_sums(
    people: MakePeople, run_method: RunMethod
) -> None:
    pulled, free = (run_method(people(), "protohar", hyper={"lam": n}, **SUMS) for n in (1.0, 0.0))
    body = "linear1.weight"
    assert torch.equal(pulled.states[0][body], free.states[0][body])
    assert not torch.equal(pulled.states[-1][body], free.states[-1][body])


def test_a_class_that_too_few_people_have_is_in_no_sum(
    people: MakePeople, run_method: RunMethod, caplog: pytest.LogCaptureFixture
) -> None:
    run = run_method(people(RARE), "fedproto", **SUMS)
    assert run.states[-1]["holders"].tolist() == [6, 6, 2]
    assert run.states[-1][HELD].tolist() == [True, True, False]
    assert not run.states[-1][PROTOTYPES][2].any()
    assert caplog.text.count("no prototypes of 1 classes, which fewer than 4 people have") == 1


@pytest.mark.parametrize(("gone", "opened"), [(["p1"], [1, 2, 3]), (["p1", "p4"], [1, 3])])
def test_a_sum_of_classes_is_opened_of_people_enough_alone(
    gone: list[str], opened: list[int], people: MakePeople, run_method: RunMethod
) -> None:
    """Of four who have a class, and three of whom each sum must be, one may go silent."""
    silent = lost("train", *gone, round=2, people=5)
    run = run_method(people(((0,), *[(0, 1)] * 4)), "fedproto", tamper=silent, **SUMS)
    assert list(run.metric("secure_people")) == [(round, "") for round in opened]
    assert list(run.metric("secure_lost")) == [(2, "")] * (2 not in opened)


def test_a_forgotten_person_is_not_sure_to_have_a_class(
    people: MakePeople, run_method: RunMethod
) -> None:
    run: FinishedRun = run_method(people(), "fedproto", **SUMS)
    left = run.strategy.half.without(run.states[-1], "p1")
    assert left.keys() == run.states[-1].keys() - {"counted.in/p1"}


def test_people_whose_models_diverged_are_silent_where_prototypes_are_asked_for(
    people: MakePeople, run_method: RunMethod, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Zeros of three of four would leave the fourth's prototypes alone in the sum."""
    whole = PrototypeLearner.class_means

    def diverged(self: Any, params: Any, data: Any, turn: Any) -> Any:
        means, counts = whole(self, params, data, turn)
        for i, client in enumerate(data.clients):
            if turn.round == 2 and client != "p1":
                means[i] = torch.nan
        return means, counts

    monkeypatch.setattr(PrototypeLearner, "class_means", diverged)
    run = run_method(people(), "fedproto", **SUMS)
    assert list(run.metric("secure_lost")) == [(2, "")]
    assert torch.equal(run.states[1][PROTOTYPES], run.states[0][PROTOTYPES])


@pytest.mark.parametrize(("asked", "same"), [([0, 1], True), ([0], False), ([0, 1, 2], False)])
def test_a_repeated_round_that_asks_for_other_classes_gets_no_vector(
    asked: list[int], same: bool
) -> None:
    model, card = mlp(4, 3, (2,)), METHODS["fedproto"]
    learner = make_learner(card, model, TrainingSettings(), card.hyperparameters(), sums=True)
    numbers, none = np.full(7, 2.5), np.zeros(0)
    before, levels = Levels.of_people(4, 30, 8.0), Levels.of_people(3, 30, 8.0)
    of_then = np.repeat([True, True, False], (3, 4, 2))  # all counts, two classes' prototypes
    state = {ASKED_FOR: torch.tensor([digest_of(of_then)])}
    now = Bundle(tensors={ASKED: Bits(np.isin(np.arange(3), asked))})

    def vector(of: Levels) -> Words:
        return slots.with_slots(of.vector(none, 1), numbers, of)

    found = learner.vector_again(vector(before), Repeated(before, levels, 30, state, now))
    np.testing.assert_array_equal(found, vector(levels) if same else NO_VECTOR)


def test_who_sends_prototypes_alone_does_not_tell_its_samples() -> None:
    """Nothing in the sum is weighted by them."""
    model, card = mlp(4, 3, (2,)), METHODS["fedproto"]
    learner = make_learner(card, model, TrainingSettings(), card.hyperparameters(), sums=True)
    upload = Bundle(30, tensors={NUMBERS: Floats(np.ones(3, np.float32))})
    vector = learner.vector(upload, Bundle(), Levels.of_people(4, 30, 8.0))
    assert vector[-BESIDE:].tolist() == [1, 0]
