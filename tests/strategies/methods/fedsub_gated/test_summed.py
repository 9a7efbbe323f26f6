"""FedSub with a federated gate whose server learns sums alone."""

from __future__ import annotations

import logging
from functools import partial
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from fedsub_client.methods.fedsub.fusion_by_means import OfClusters
from fedsub_client.methods.fedsub.summed import ROUND
from fedsub_client.methods.fedsub_gated.fusion_by_means import fuse
from fedsub_client.methods.fedsub_gated.summed import SummedFedSubGatedLearner
from fedsub_core.data.federation import ClientData, Federation
from fedsub_core.methods.fedsub_gated import CURVES, GATE
from fedsub_core.methods.fedsub_sums import EVERYBODY
from fedsub_core.secure.gate_slots import HOLDS_BACK
from fedsub_core.turn import Turn
from fedsub_core.wire.bundles import Bundle, Floats
from strategies.methods.fedsub_gated.fusion import Mix
from strategies.methods.fedsub_gated.gate import Gate
from strategies.methods.fedsub_gated.summed import EVER, JUDGES, SummedFedSubGatedStrategy

from ...finished_run import FinishedRun, MakePeople, RunMethod
from ...lost_replies import lost
from ..fedsub.equations import Array, Round, federation, rounds
from .test_fusion import MIXES, reference, shares_of

KEYS: dict[str, Any] = dict(
    robust="none", lr=0.05, batch_size=16, hidden="8", standardise="client", evaluate_every=9
)
ONE = {"k_selection": "fixed:1", "prototype": "embedding", "score": "one", "impute": False}
LAYERS = ("linear1", "linear2")


def fused_on_devices(round: Round, shares: Array | None, mix: Mix) -> tuple[Array, Array]:
    """Return what each person makes of the means that sums of clusters give."""
    rows, masks, clusters, inside, _ = round
    masks = masks & inside[:, :, None]
    same = (clusters[:, None] == clusters[None]) & inside[:, None] & inside[None]
    holds = np.einsum("uvy,vyj->uyj", same.astype(float), masks)
    sums = np.einsum("uvy,vyj,vjw->uyjw", same.astype(float), masks, rows)
    each = masks.sum(1)
    everybody = np.einsum("vj,vjw->jw", each, rows) / np.maximum(each.sum(0), 1)[:, None]
    found = []
    for u, of in enumerate(inside):
        means = sums[u, of] / np.maximum(holds[u, of], 1)[..., None]
        # Of rows that it did not select a device has its own, too: they do not count.
        own = np.where(masks[u].any(0)[:, None], rows[u], 7.0)
        known, classes = holds[u, of] > 0, np.flatnonzero(of)
        every, chosen = np.ones(known.shape, np.bool_), masks[u, of]
        one = OfClusters(classes, means, every, known, known, chosen, chosen.any(0), own)
        mine = None if shares is None else shares[u, of]
        found.append(fuse(one, mine, everybody, each.sum(0) > 0, mix.alike, mix.all))
    fused, replaced = (np.stack(each) for each in zip(*found, strict=True))
    return fused * replaced[..., None], replaced


def alone(round: Round) -> Round:
    """Return a round in which all count alike, and nobody is in a cluster of a class it lacks."""
    rows, masks, clusters, inside, _ = round
    inside = inside & (clusters >= 0)
    return rows, masks & inside[..., None], np.where(inside, clusters, -1), inside, inside * 1.0


def compare(round: Round, shares: Array | None, mix: Mix) -> None:
    fused, replaced = fused_on_devices(round, shares, mix)
    expected, replaces = reference(round, shares, mix)
    assert (replaced == replaces).all()
    np.testing.assert_allclose(fused, expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("mix", MIXES)
@given(round=rounds, seed=st.integers(0, 99))
@settings(max_examples=40, deadline=None)
def test_a_device_fuses_hidden_units_as_a_server_does(mix: Mix, round: Round, seed: int) -> None:
    round = alone(round)
    compare(round, shares_of(round, seed), mix)


@pytest.mark.parametrize("mix", MIXES)
@pytest.mark.parametrize("seed", range(20))
def test_a_device_fuses_outputs_as_a_server_does(mix: Mix, seed: int) -> None:
    rows, _, clusters, inside, omega = federation(seed, n=6, classes=4, units=4)
    round = alone((rows, np.eye(4, dtype=bool)[None] & inside[:, :, None], clusters, inside, omega))
    round[0][~round[3]] = 0
    compare(round, None, mix)


@pytest.mark.parametrize(("share", "taken"), [(0.02, 0.04), (0.3, 0.6), (0.98, 1.0)])
def test_a_class_in_its_turn_counts_by_its_share(share: float, taken: float) -> None:
    """Of two classes each comes every other time: twice its share, at most as both together."""
    both = np.ones((2, 1), np.bool_)
    turn = np.array([[True], [False]])
    means = np.full((2, 1, 2), 5.0, np.float32)
    of = OfClusters(
        np.arange(2), means, turn, turn, turn, both, both[0], np.ones((1, 2), np.float32)
    )
    shares, nobody = np.array([[share], [1 - share]]), np.zeros((1, 2), np.float32)
    fused, new = fuse(of, shares, nobody, np.zeros(1, np.bool_), 0.5, 0.0)
    np.testing.assert_allclose(fused, 1 + 0.5 * taken * 4, rtol=1e-6)
    assert new.all()


def watched(run_method: RunMethod, people: MakePeople, **keys: Any) -> tuple[Any, ...]:
    """Return a run, and what each person keeps after each of its rounds."""
    kept: list[list[dict[str, Tensor]]] = []

    def note(round: int, run: FinishedRun) -> None:
        states = run.client_states().values()
        kept.append([{n: t.clone() for n, t in s.items()} for s in states])

    keys = KEYS | {"hyper": ONE, "secure_aggregation": True} | keys
    return run_method(people(), "fedsub-gated", after_round=note, **keys), kept


def test_a_step_of_the_gate_is_that_of_single_uploads(
    people: MakePeople, run_method: RunMethod, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each of which counts once; the first round says who holds samples back."""
    uploads: list[Bundle] = []
    add = SummedFedSubGatedLearner.add_beside

    def note(learner: Any, parts: Any, upload: Bundle, *more: Any) -> bool:
        told = {name: upload.floats(name) for name in (GATE, CURVES)}
        each = {name: Floats(one / max(told[GATE][-1], 1)) for name, one in told.items()}
        uploads.append(Bundle(tensors={**each}))
        return add(learner, parts, upload, *more)

    monkeypatch.setattr(SummedFedSubGatedLearner, "add_beside", note)
    run, _ = watched(run_method, people, rounds=5)
    assert run.states[0][JUDGES].tolist() == [4]
    assert torch.equal(run.states[0]["gate.weights"], torch.full((3,), 1 / 3))
    second = {str(i): one for i, one in enumerate(uploads[4:8])}
    expected = Gate.of(run.states[0]).updated(second, 0)
    assert not torch.allclose(expected.weights, run.states[0]["gate.weights"], atol=1e-3)
    for name, tensor in expected.state().items():
        torch.testing.assert_close(run.states[1][name], tensor, atol=1e-5, rtol=0)
    # From the third round on, after two fifths of the run, nothing judges.
    assert torch.equal(run.states[2]["gate.weights"], run.states[1]["gate.weights"])
    assert not run.metric("weight_local") and run.metric("training_loss")


def test_the_gates_sums_are_of_enough_people_who_hold_samples_back(
    people: MakePeople, run_method: RunMethod
) -> None:
    """Who holds none back adds zeros: of four such and one other the sum would be that one's."""
    made = people(((0, 1, 2),) * 5, samples=12)
    few = {
        name: ClientData(name, np.concatenate([one.x[one.y == y][:2] for y in range(3)]),
                         np.repeat(np.arange(3), 2))
        for name, one in list(made.clients.items())[:4]
    }  # fmt: skip
    federation = Federation(made.card, made.clients | few)
    run, _ = watched(run_method, lambda: federation, rounds=6)
    assert [int(state[JUDGES]) for state in run.states[:2]] == [1, 1]
    assert run.metric("secure_people")[2, ""] == 5
    assert torch.equal(run.states[-1]["gate.weights"], torch.full((3,), 1 / 3))


def test_a_lost_sum_leaves_models_as_they_are(people: MakePeople, run_method: RunMethod) -> None:
    """Nobody knows of whom the means of before would be."""
    silent = lost("train", "p1", "p4", round=5)
    run, kept = watched(run_method, people, rounds=6, tamper=silent)
    assert list(run.metric("secure_lost")) == [(5, "")]
    assert not any(one.any() for n, one in run.states[4].items() if n.endswith(".known"))
    # Whoever joins now begins with the last mean. Of who holds samples back nobody is sure.
    assert run.states[4]["linear1.anybody"].all() and not run.states[4][JUDGES].any()
    for before, after in zip(kept[4], kept[5], strict=True):
        for name in LAYERS:
            assert torch.equal(before[f"model.{name}.weight"], after[f"fused.{name}.weight"])
    assert any(one.any() for n, one in run.states[3].items() if n.endswith(".known"))


def test_weak_devices_train_alone_by_everybodys_gate(
    people: MakePeople, run_method: RunMethod
) -> None:
    many = people(((0, 1, 2),) * 5)
    run, kept = watched(run_method, lambda: many, rounds=4, capacities="1,1,1,1,1/2")
    assert run.metric("secure_people") == {(n, ""): 4 for n in range(1, 5)}
    weak = [i for i, one in enumerate(kept[0]) if len(one["model.linear1.weight"]) == 4]
    assert len(weak) == 1
    before, after = kept[2][weak[0]], kept[3][weak[0]]
    assert torch.equal(before["model.linear1.weight"], after["fused.linear1.weight"])
    assert torch.equal(after["gate.common"], run.states[2]["gate.weights"])


def test_means_are_of_everybody_and_come_back(people: MakePeople, run_method: RunMethod) -> None:
    """Where everybody is mixed in alone, all of a hidden layer is the mean after three sums."""
    run, kept = watched(run_method, people, rounds=4, hyper=ONE | {"anneal": 1.0})
    for name in LAYERS:
        rows = torch.stack(
            [
                torch.cat([s[f"model.{name}.weight"], s[f"model.{name}.bias"][:, None]], 1)
                for s in kept[2]
            ]
        )
        state = run.states[2]
        assert state[f"{name}.anybody"].all()
        torch.testing.assert_close(state[f"{name}.everybody"], rows.mean(0), atol=1e-5, rtol=0)
    assert not run.states[1]["linear1.anybody"].any()
    fused = torch.stack([s["fused.linear2.weight"] for s in kept[3]])
    torch.testing.assert_close(fused, fused[:1].expand_as(fused), atol=1e-5, rtol=0)
    assert run.metric("secure_people") == {(n, ""): 4 for n in range(1, 5)}


def test_who_joins_late_starts_from_everybodys_mean() -> None:
    rows = np.arange(6.0, dtype=np.float32).reshape(3, 2)
    told = Floats.rows(np.array([True, False, True]), rows[[0, 2]])
    none: Any = np.zeros(0)
    of = OfClusters(none, none, none, none, none, none, none, rows - 9)
    learner: Any = SimpleNamespace()
    bundle = Bundle(tensors={"linear1" + EVERYBODY: told})
    state = {ROUND: torch.zeros(1, dtype=torch.int64), "met": torch.zeros(1)}
    take = partial(SummedFedSubGatedLearner.replaced, learner)
    found, new = take(state, 0, "linear1", "linear1", of, bundle)
    assert new.tolist() == [True, False, True]
    np.testing.assert_array_equal(found[new], rows[[0, 2]])
    # Nor whoever was in no sum since: it has trained a model of its own.
    assert not take(state | {"met": torch.ones(1)}, 0, "linear1", "linear1", of, bundle)[1].any()


@pytest.mark.parametrize(
    ("sums", "curve", "holding"),
    [
        ([1, 1, 1, 5], 0.0, 4),  # more people than there are
        ([-1, 1, 1, 3], 0.0, 4),
        ([2, 2, 2, 3], 0.0, 4),  # more is explained than there are people
        ([1, 1, 1, 3], 99.0, 4),
        ([1, 1, 1, 3], 0.0, -50),
        ([0, 0, 0, 0], 0.0, 5),
    ],
)
def test_sums_that_nobody_can_have_led_to_do_not_move_the_gate(
    sums: list[float],
    curve: float,
    holding: float,
    people: MakePeople,
    run_method: RunMethod,
    caplog: pytest.LogCaptureFixture,
) -> None:
    run, _ = watched(run_method, people, rounds=3)
    assert isinstance(run.strategy, SummedFedSubGatedStrategy)
    state, opened = run.states[0], SimpleNamespace(clients=("a", "b", "c", "d"))
    turn = Turn(seed=0, round=1, rounds=3)

    def step(sums: list[float], curve: float, holding: float = 3) -> Tensor:
        holds = np.array([holding])
        found = {GATE: np.array(sums), CURVES: np.full((3, 7), curve), HOLDS_BACK: holds}
        after: Tensor = run.strategy.found_beside(state, found, opened, turn)[0]["gate.weights"]
        return after

    with caplog.at_level(logging.WARNING, "fedsub"):
        after = step(sums, curve, holding)
    assert torch.equal(after, state["gate.weights"])
    assert "round 1: the gate's sums are of no use" in caplog.text
    moved = step([2, 0.5, 0.5, 3], 0.0) - state["gate.weights"]
    assert moved.any()
    # As little as few of those who were ever in a sum are in this one.
    state = state | {EVER: torch.tensor([40])}
    slower = step([2, 0.5, 0.5, 3], 0.0) - state["gate.weights"]
    torch.testing.assert_close(slower, moved / 10, atol=1e-6, rtol=0)
