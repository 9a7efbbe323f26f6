"""FedSub whose server learns sums alone: public clusters, and means of enough people."""

from __future__ import annotations

import logging
from functools import partial
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from torch import Tensor

from fedsub_client.in_sums import Repeated
from fedsub_client.methods.fedsub.fusion_by_means import OfClusters, fuse
from fedsub_client.methods.fedsub.summed import (
    ASKED_FOR,
    ROUND,
    SummedFedSubLearner,
)
from fedsub_core.data.federation import ClientData, Federation
from fedsub_core.errors import RunError
from fedsub_core.methods.fedsub_sums import ASKED, OPEN, READ
from fedsub_core.secure.cluster_slots import digest_of, one_class_each
from fedsub_core.secure.quantise import Levels
from fedsub_core.secure.slots import levels_of
from fedsub_core.secure.uploads import NO_VECTOR
from fedsub_core.wire.bundles import Bits, Bundle
from strategies.methods.fedsub.summed import SummedFedSubStrategy

from ...finished_run import FinishedRun, MakePeople, RunMethod
from ...lost_replies import lost
from .equations import Array, Round, reference, rounds

SUMS: dict[str, Any] = dict(
    robust="none",
    lr=0.05,
    batch_size=16,
    hidden="8",
    standardise="client",
    secure_aggregation=True,
)
ONE = {"k_selection": "fixed:1", "fusion": "avg", "fusion_reading": "held"}
LAYERS = ("linear1", "linear2")
WAYS = [("overlapping", "own"), ("overlapping-any", "own"), *(("avg", one) for one in READ)]


def by_cluster(own: Array, clusters: Array, holds: Array) -> Array:
    """Return sums over the people of each person's cluster, by class, of what `holds` says."""
    same = (clusters[:, None] == clusters[None]) & (clusters >= 0)[None]
    found: Array = np.einsum("uvy,vyj...->uyj...", same.astype(float), holds * own)
    return found


@pytest.mark.parametrize(("fusion", "reading"), WAYS)
@given(round=rounds)
@settings(max_examples=40, deadline=None)
def test_a_device_fuses_as_the_papers_equations_say(
    fusion: str, reading: str, round: Round
) -> None:
    """Of clusters whose people all count alike, by means and counts alone."""
    rows, masks, clusters, _, _ = round
    inside = clusters >= 0
    masks = masks & inside[:, :, None]
    expected, replaces = reference(
        fusion, rows, masks, clusters, inside, np.ones(inside.shape), reading
    )
    people = by_cluster(np.ones(masks.shape), clusters, masks)
    sums = by_cluster(rows[:, None], clusters, masks[..., None])
    members = by_cluster(np.ones(masks.shape), clusters, np.ones(masks.shape))
    for u, of in enumerate(inside):
        if not of.any():
            continue
        means = sums[u, of] / np.maximum(people[u, of], 1)[..., None]
        known, by_all = people[u, of] > 0, people[u, of] == members[u, of]
        every = np.ones(known.shape, np.bool_)
        chosen = masks[u, of]
        one = OfClusters(
            np.flatnonzero(of), means, every, known, by_all, chosen, chosen.any(0), rows[u]
        )
        fused, replaced = fuse(fusion, reading, one)
        assert (replaced == replaces[u]).all()
        np.testing.assert_allclose(fused[replaced], expected[u][replaced], rtol=1e-4, atol=1e-4)


def watched(run_method: RunMethod, federation: Federation, **keys: Any) -> tuple[Any, ...]:
    """Return a run, and what each person keeps after each of its rounds."""
    kept: list[dict[str, dict[str, Tensor]]] = []

    def note(round: int, run: FinishedRun) -> None:
        states = run.client_states()
        kept.append({c: {n: t.clone() for n, t in s.items()} for c, s in states.items()})

    run = run_method(federation, "fedsub", after_round=note, **SUMS | keys)
    return run, kept


def test_means_are_of_what_was_counted_in_the_rounds_before(
    people: MakePeople, run_method: RunMethod
) -> None:
    run, kept = watched(run_method, people(), hyper=ONE, rounds=3)
    first, second, third = run.states
    assert first["people"].tolist() == [[4], [4], [4]]
    assert not first["selected.linear1"].any() and not second["linear1.known"].any()
    for name in LAYERS:
        counted = torch.stack([s[f"counted.chosen.{name}"].bool() for s in kept[1].values()])
        people_of = counted.view(4, 3, -1).sum(0)
        assert torch.equal(second[f"selected.{name}"][:, 0], people_of)
        # Three must have selected a unit, and one of four may go silent.
        known = torch.from_numpy(one_class_each((people_of >= 4).numpy()[:, None], 3))[:, 0]
        assert torch.equal(third[f"{name}.known"][:, 0], known)
        rows = torch.stack(
            [
                torch.cat([s[f"model.{name}.weight"], s[f"model.{name}.bias"][:, None]], 1)
                for s in kept[2].values()
            ]
        )
        means = rows.mean(0).expand(3, -1, -1)
        torch.testing.assert_close(
            third[f"{name}.means"][:, 0][known], means[known], atol=1e-5, rtol=0
        )
        assert known.any()
    assert run.metric("secure_people") == {(1, ""): 4, (2, ""): 4, (3, ""): 4}


@pytest.mark.parametrize("fusion", ["overlapping", "overlapping-any", "avg"])
def test_people_get_what_their_clusters_have_in_common(
    fusion: str, people: MakePeople, run_method: RunMethod
) -> None:
    """The fourth round begins with rows of others: without them models would be those of alone."""
    run, kept = watched(run_method, people(), hyper=ONE | {"fusion": fusion}, rounds=4)
    _, alone = watched(run_method, people(), hyper=ONE | {"depth": 1}, rounds=4)
    name = "model.linear1.weight"
    local = run_method(people(), "local", **SUMS | {"rounds": 4}).client_states()
    for client, state in kept[3].items():
        assert torch.equal(kept[2][client][name], alone[2][client][name])
        assert not torch.equal(state[name], local[client][name])
    assert run.states[-1]["linear1.by-all"].any()


def two_kinds(make: MakePeople) -> Federation:
    """Return twelve people, of whom six have their samples of class 0 elsewhere."""
    made = make(((0, 1, 2),) * 12, samples=8)
    found = {}
    for i, (name, one) in enumerate(made.clients.items()):
        x = one.x.copy()
        x[one.y == 0] += 12 if i % 2 else -12
        found[name] = ClientData(name, x, one.y)
    return Federation(made.card, found)


def test_a_class_is_split_into_people_who_are_alike(
    people: MakePeople, run_method: RunMethod
) -> None:
    """Two clusters of class 0, each of six people; of who is in which the server knows nothing."""
    keys: dict[str, Any] = {"standardise": "none", "rounds": 5}
    hyper = ONE | {"k_selection": "fixed:2"}
    federation = two_kinds(people)
    run, kept = watched(run_method, federation, hyper=hyper, **keys)
    state = run.states[-1]
    assert state["open"][0].tolist() == [True, True]
    own = {c: int(s["counted.cluster"].view(-1)[0]) for c, s in kept[-1].items()}
    kinds = [own[f"client/{name}"] for name in federation.clients]
    assert kinds in ([0, 1] * 6, [1, 0] * 6)
    assert sorted(state["people"][0].tolist()) == [6, 6]
    assert {tuple(t.shape) for n, t in state.items() if n.startswith("counted.in/")} == {(1,)}


def test_halves_that_are_too_small_are_closed_and_tried_no_more(
    people: MakePeople, run_method: RunMethod
) -> None:
    """Of four people no half can have four."""
    hyper = ONE | {"k_selection": "fixed:2"}
    run, _ = watched(run_method, people(), hyper=hyper, rounds=4)
    assert run.states[-1]["open"].sum(1).tolist() == [1, 1, 1]
    assert not run.states[-1]["splits"].any()


def test_after_a_lost_sum_people_are_counted_anew(
    people: MakePeople, run_method: RunMethod
) -> None:
    """Devices go by what they said in the round that was lost: nobody knows how many that were."""
    silent = lost("train", "p1", "p4", round=2)
    run = run_method(people(), "fedsub", silent, hyper=ONE, **SUMS | {"rounds": 5})
    assert list(run.metric("secure_lost")) == [(2, "")]
    assert not run.states[1]["people"].any()
    assert run.states[1]["counted"].tolist() == [0, 0]
    assert run.states[2]["people"].tolist() == [[4], [4], [4]]
    assert not run.states[2]["linear1.known"].any()
    assert run.states[4]["linear1.known"].any()


def test_of_a_class_that_too_few_people_have_nothing_else_is_known(
    people: MakePeople, run_method: RunMethod
) -> None:
    run, _ = watched(run_method, people(((0, 1), (0, 1), (0, 1), (0, 1, 2))), hyper=ONE, rounds=3)
    state = run.states[-1]
    assert state["people"].tolist() == [[4], [4], [1]]
    assert state["linear1.known"][:2].any()
    assert not state["linear1.known"][2].any()
    assert not state["linear1.means"][2].any() and not state["selected.linear1"][2].any()
    assert not state["centroids"][2].any()


def test_it_is_said_once_that_nothing_is_fused(
    people: MakePeople, run_method: RunMethod, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, "fedsub"):
        run, _ = watched(run_method, people(((0,), (0, 1), (1, 2), (2,))), hyper=ONE, rounds=4)
    assert run.states[-1]["people"].tolist() == [[2], [2], [2]]
    said = [r.getMessage() for r in caplog.records if "nothing is fused" in r.getMessage()]
    assert said == ["round 2: no cluster of a class has 4 people for sure: nothing is fused"]
    caplog.clear()
    with caplog.at_level(logging.WARNING, "fedsub"):
        watched(run_method, two_kinds(people), hyper=ONE | {"k_selection": "fixed:2"}, rounds=4)
    assert "nothing is fused" not in caplog.text


def test_weak_devices_are_in_no_sum_and_train_alone(
    people: MakePeople, run_method: RunMethod
) -> None:
    keys = SUMS | {"rounds": 3, "capacities": "1,1,1,1,1/2"}
    run = run_method(people(((0, 1, 2),) * 5), "fedsub", hyper=ONE, **keys)
    assert run.metric("secure_people") == {(n, ""): 4 for n in (1, 2, 3)}
    assert not sum(run.refusals.values())


def test_a_forgotten_person_is_counted_no_more(people: MakePeople, run_method: RunMethod) -> None:
    run, _ = watched(run_method, people(), hyper=ONE, rounds=1)
    assert isinstance(run.strategy, SummedFedSubStrategy)
    left = run.strategy.without(run.states[-1], "p1")
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
    asked, opened = np.array([[True]]), Bits(np.array([[True]]))
    state = {ASKED_FOR: torch.tensor([digest_of({OPEN: opened.values, ASKED: asked})])}
    now = Bundle(tensors={OPEN: opened, ASKED: Bits(asked if same else ~asked)})
    before, levels = Levels.among(4, 30, 8.0), Levels.among(3, 30, 8.0)
    vector = levels_of(before).vector(np.array([1.0, 2.5]), 1)
    asks = SummedFedSubLearner._asks
    learner: Any = SimpleNamespace(_layout=SimpleNamespace(layers=(), beside={}))
    learner._asks = partial(asks, learner)
    found = SummedFedSubLearner.vector_again(
        learner, vector, Repeated(before, levels, 30, state, now)
    )
    expected = levels_of(levels).vector(np.array([1.0, 2.5]), 1) if same else NO_VECTOR
    np.testing.assert_array_equal(found, expected)


def test_rows_of_two_classes_at_once_are_told_to_nobody(
    people: MakePeople, run_method: RunMethod, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All classes share rows: two slots that differ in one person would tell that person's."""
    monkeypatch.setattr("strategies.methods.fedsub.summed.one_class_each", lambda able, _: able)
    with pytest.raises(RunError, match="round 3: 0 of 4 clients sent a usable upload"):
        watched(run_method, people(), hyper=ONE, rounds=3)
