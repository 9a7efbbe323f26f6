"""FedSub with a federated gate whose server learns sums alone."""

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

from fedsub_client.methods.fedsub_gated.mixture import Mixture
from fedsub_client.methods.fedsub_gated.summed import SummedFedSubGatedLearner
from fedsub_client.parts.counted_rows import LAST, ROUND
from fedsub_core.data.federation import ClientData, Federation
from fedsub_core.methods.fedsub_gated import CURVES, GATE, HOLDS_BACK, adds, sends
from fedsub_core.methods.fedsub_gated_experts import FedSubGatedHyperparameters
from fedsub_core.methods.fedsub_sums import COUNTED, MIX, USED
from fedsub_core.models.kinds import mlp
from fedsub_core.secure.quantise import Levels
from fedsub_core.training import TrainingSettings
from fedsub_core.wire.bundles import Bundle, Floats
from strategies.methods.fedsub_gated import fusion
from strategies.methods.fedsub_gated.fusion import Mix
from strategies.methods.fedsub_gated.gate import Gate
from strategies.methods.fedsub_gated.summed import EVER, SummedFedSubGatedServer
from strategies.rounds.context import Opened

from ...finished_run import FinishedRun, MakePeople, RunMethod
from ...lost_replies import lost
from ..fedsub.equations import Array, Round, by_class, federation, rounds
from .test_fusion import MIXES, reference, shares_of

KEYS: dict[str, Any] = dict(
    robust="none", lr=0.05, batch_size=16, hidden="8", standardise="client", evaluate_every=9
)
ONE: dict[str, Any] = {"k_selection": "fixed:1", "score": "one", "impute": False}
LAYERS = ("linear1", "linear2")


def on_devices(round: Round, output: bool, mix: Mix) -> tuple[Array, Array]:
    """Return what each person makes of the means that sums give."""
    rows, masks, _, _, _ = round
    n, classes, units = masks.shape
    model = mlp(rows.shape[2] - 1, classes, () if output else (units,))
    name = model.affine[0].name
    hyper = FedSubGatedHyperparameters(**ONE)
    learner = SummedFedSubGatedLearner(
        model, TrainingSettings(), hyper, sends(model, hyper), Mixture, adds=adds(model, hyper)
    )
    state = learner.init(n, 0)
    state[f"model.{name}.weight"] = torch.from_numpy(rows[:, :, :-1].copy())
    state[f"model.{name}.bias"] = torch.from_numpy(rows[:, :, -1].copy())
    state[LAST + name + USED] = torch.from_numpy(masks)
    state["met"], state[ROUND] = torch.ones(n), torch.ones(n, dtype=torch.int64)
    means = by_class(rows, masks).astype(np.float32)
    known: Array = np.logical_or.reduce(masks, axis=(0, 1))
    nothing = {
        layer.name: Floats.rows(np.zeros(layer.units, bool), np.zeros((0, own.width), np.float32))
        for layer in model.affine
        for own in layer.rows
    }
    told = nothing | {
        COUNTED: Floats(np.array([1, 1], np.float32)),
        MIX: Floats(np.array([mix.alike + mix.all], np.float32)),
        name: Floats.rows(known, means[known]),
    }
    after = learner.receive(state, [Bundle(tensors=told)] * n)
    weight, bias = after[f"model.{name}.weight"], after[f"model.{name}.bias"]
    return torch.cat([weight, bias[..., None]], 2).numpy(), known


def everybody_alike(round: Round) -> Round:
    """Return a round in which all count alike, in one cluster of each class, and have all classes.

    All classes of a person use the same units: then everybody's means are each class's.
    """
    rows, masks, clusters, inside, _ = round
    rows = np.concatenate([rows, rows[..., :1]], 2)  # a weight and a bias at least
    masks = np.repeat(masks.any(1, keepdims=True), masks.shape[1], axis=1)
    every = np.ones_like(inside)
    return rows, masks, np.zeros_like(clusters), every, every * 1.0


@pytest.mark.parametrize("mix", MIXES)
@given(round=rounds, seed=st.integers(0, 99))
@settings(max_examples=40, deadline=None)
def test_a_device_mixes_hidden_units_as_a_server_does(mix: Mix, round: Round, seed: int) -> None:
    round = everybody_alike(round)
    fused, known = on_devices(round, False, mix)
    expected, replaced = reference(round, shares_of(round, seed), mix)
    assert (replaced == known).all()
    np.testing.assert_allclose(fused[replaced], expected[replaced], rtol=1e-4, atol=1e-4)
    np.testing.assert_array_equal(fused[~replaced], round[0][~replaced])


@pytest.mark.parametrize("mix", MIXES)
@pytest.mark.parametrize("seed", range(10))
def test_a_device_takes_outputs_as_a_server_gives_them(mix: Mix, seed: int) -> None:
    """Each class's row is that of all who have the class, for who lacks it, too."""
    rows, _, clusters, inside, _ = federation(seed, n=6, classes=4, units=4)
    masks = np.eye(4, dtype=bool)[None] & inside[:, :, None]
    rows = np.random.default_rng(seed).normal(size=rows.shape).astype(np.float32)
    rows[~inside] = 0
    clusters = np.where(inside, 0, -1)
    round = rows, masks, clusters, inside, inside * 1.0
    fused, known = on_devices(round, True, mix)
    expected, replaced = reference(round, None, Mix(0.0, 1.0))
    assert (replaced == known).all()
    np.testing.assert_allclose(fused[replaced], expected[replaced], rtol=1e-4, atol=1e-4)


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
    counted = SummedFedSubGatedLearner.counted

    def note(learner: Any, upload: Bundle) -> Any:
        told = {name: upload.floats(name) for name in (GATE, CURVES)}
        each = {name: Floats(one / max(told[GATE][-1], 1)) for name, one in told.items()}
        uploads.append(Bundle(tensors={**each}))
        return counted(learner, upload)

    monkeypatch.setattr(SummedFedSubGatedLearner, "counted", note)
    run, _ = watched(run_method, people, rounds=5)
    assert run.states[0][HOLDS_BACK].tolist() == [4]
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
    assert [int(state[HOLDS_BACK]) for state in run.states[:2]] == [1, 1]
    assert run.metric("secure_people")[2, ""] == 5
    assert torch.equal(run.states[-1]["gate.weights"], torch.full((3,), 1 / 3))


def test_a_lost_sum_leaves_models_as_they_are(people: MakePeople, run_method: RunMethod) -> None:
    """Nobody knows of whom the means of before would be."""
    silent = lost("train", "p1", "p4", round=5)
    run, kept = watched(run_method, people, rounds=6, tamper=silent)
    assert list(run.metric("secure_lost")) == [(5, "")]
    assert not any(one.any() for n, one in run.states[4].items() if n.endswith(".known"))
    # Of who holds samples back nobody is sure.
    assert not run.states[4][HOLDS_BACK].any()
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


def test_means_are_of_everybody_and_come_back(
    people: MakePeople, run_method: RunMethod, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All of an output row is everybody's mean after two sums, of a hidden one a part."""
    monkeypatch.setattr(fusion, "ANNEALED", 1.0)
    run, kept = watched(run_method, people, rounds=4)
    for name in LAYERS:
        rows = torch.stack(
            [
                torch.cat([s[f"model.{name}.weight"], s[f"model.{name}.bias"][:, None]], 1)
                for s in kept[2]
            ]
        )
        state = run.states[2]
        assert state[f"{name}.known"].all()
        torch.testing.assert_close(state[f"{name}.means"], rows.mean(0), atol=1e-5, rtol=0)
    assert not run.states[0]["linear1.known"].any()
    told = run.states[2]["linear1.means"][:, :-1]
    for before, after in zip(kept[2], kept[3], strict=True):
        own, fused = before["model.linear1.weight"], after["fused.linear1.weight"]
        torch.testing.assert_close(fused, 0.625 * told + 0.375 * own, atol=1e-5, rtol=0)
    fused = torch.stack([s["fused.linear2.weight"] for s in kept[3]])
    torch.testing.assert_close(fused, fused[:1].expand_as(fused), atol=1e-5, rtol=0)
    assert run.metric("secure_people") == {(n, ""): 4 for n in range(1, 5)}


def test_who_joins_late_starts_from_everybodys_mean() -> None:
    layer: Any = SimpleNamespace(name="linear1", units=3)
    learner: Any = SimpleNamespace(model=SimpleNamespace(affine=[layer, None]))
    share = partial(SummedFedSubGatedLearner.share, learner)
    state = {ROUND: torch.zeros(1, dtype=torch.int64), "met": torch.zeros(1)}
    assert share(state, 0, layer, Bundle()).tolist() == [1, 1, 1]
    # Nor whoever was in no sum since: it has trained a model of its own.
    assert not share(state | {"met": torch.ones(1)}, 0, layer, Bundle()).any()


@pytest.mark.parametrize(
    ("sums", "curve"),
    [
        ([1, 1, 1, 5], 0.0),  # more people than there are
        ([-1, 1, 1, 3], 0.0),
        ([2, 2, 2, 3], 0.0),  # more is explained than there are people
        ([1, 1, 1, 3], 99.0),
    ],
)
def test_sums_that_nobody_can_have_led_to_do_not_move_the_gate(
    sums: list[float],
    curve: float,
    people: MakePeople,
    run_method: RunMethod,
    caplog: pytest.LogCaptureFixture,
) -> None:
    run, _ = watched(run_method, people, rounds=3)
    state, opened = run.states[0], Opened(None, ("a", "b", "c", "d"), Levels.of_people(4, 1, 8.0))
    half, round = run.strategy.half, run.strategy.round(1)
    assert isinstance(half, SummedFedSubGatedServer)

    def step(sums: list[float], curve: float) -> Tensor:
        found = {GATE: np.array([sums]), CURVES: np.full((1, 3, 7), curve)}
        now = state | {HOLDS_BACK: torch.tensor([3])}
        after: Tensor = half.step(now, round, opened, found)[0]["gate.weights"]
        return after

    with caplog.at_level(logging.WARNING, "fedsub"):
        after = step(sums, curve)
    assert torch.equal(after, state["gate.weights"])
    assert "round 1: the gate's sums are of no use" in caplog.text
    moved = step([2, 0.5, 0.5, 3], 0.0) - state["gate.weights"]
    assert moved.any()
    # As little as few of those who were ever in a sum are in this one.
    state = state | {EVER: torch.tensor([40])}
    slower = step([2, 0.5, 0.5, 3], 0.0) - state["gate.weights"]
    torch.testing.assert_close(slower, moved / 10, atol=1e-6, rtol=0)
