"""FedSub's sums with noise: all rows of a cluster, short ones, and nothing below enough people."""

from __future__ import annotations

from math import sqrt
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from fedsub_core.secure.cluster_slots import one_class_each

from ...finished_run import FinishedRun, MakePeople, RunMethod

SUMS: dict[str, Any] = dict(
    robust="none",
    lr=0.05,
    batch_size=16,
    hidden="8",
    standardise="client",
    secure_aggregation=True,
    rounds=3,
)
ONE = {"k_selection": "fixed:1", "fusion": "avg", "prototype": "embedding"}
GATED = {"k_selection": "fixed:1", "prototype": "embedding", "score": "one", "impute": False}
LAYERS = ("linear1", "linear2")
#: So little that it changes no digit that is looked at; and more than anything is long.
LITTLE, LONG = 1e-9, 1e3
#: So many that noise on counts leaves enough of them for sure.
MANY = ((0, 1, 2),) * 30


def watched(
    run_method: RunMethod, federation: Any, noise: float, clip: float, **keys: Any
) -> tuple[FinishedRun, list[dict[str, dict[str, Tensor]]]]:
    """Return a run, and what each person keeps after each of its rounds."""
    kept: list[dict[str, dict[str, Tensor]]] = []

    def note(round: int, run: FinishedRun) -> None:
        states = run.client_states()
        kept.append({c: {n: t.clone() for n, t in s.items()} for c, s in states.items()})

    keys = SUMS | {"hyper": ONE, "dp_noise": noise, "dp_clip": clip} | keys
    name = keys.pop("name", "fedsub")
    run = run_method(federation, name, after_round=note, dp_clip_prototypes=clip, **keys)
    assert not run.refusals and not run.metric("secure_lost")
    return run, kept


def rows(state: dict[str, Tensor], layer: str, model: str = "model.") -> Tensor:
    weight, bias = (state[f"{model}{layer}.{of}"] for of in ("weight", "bias"))
    return torch.cat([weight, bias[..., None]], -1)


@pytest.mark.parametrize("clip", [LONG, 0.3])
def test_means_are_of_all_peoples_rows_as_far_as_they_may_move(
    clip: float, people: MakePeople, run_method: RunMethod
) -> None:
    """Rows are asked for with prototypes, a round after people were counted."""
    run, kept = watched(run_method, people(), LITTLE, clip, rounds=2)
    start = {n: t[0] for n, t in run.strategy.model.init(1, 0).items()}
    own = {c: {n: rows(s, n) - rows(start, n, "") for n in LAYERS} for c, s in kept[1].items()}
    asked = {}
    for name, units in zip(LAYERS, (8, 3), strict=True):
        able = np.ones((3, 1, units), np.bool_)
        able &= True if name == "linear1" else np.eye(3, dtype=np.bool_)[:, None]
        asked[name] = torch.from_numpy(one_class_each(able, 2))[:, 0]
        assert torch.equal(run.states[1][f"{name}.known"][:, 0], asked[name])
    for moved in own.values():
        # Each unit's row is asked for once, of one class.
        length = sqrt(sum(float(rows.square().sum()) for rows in moved.values()))
        assert (length > clip) == (clip < LONG)
        for name in LAYERS:
            moved[name] *= min(1.0, clip / length)
    for name in LAYERS:
        mean = torch.stack([moved[name] for moved in own.values()]).mean(0) + rows(start, name, "")
        found = run.states[1][f"{name}.means"][:, 0]
        expected = mean.expand(3, -1, -1)[asked[name]]
        torch.testing.assert_close(found[asked[name]], expected, atol=2e-4, rtol=0)
    assert run.states[1]["people"].tolist() == [[4]] * 3


@pytest.mark.parametrize("name", ["fedsub", "fedsub-gated"])
def test_noise_is_as_large_as_said(name: str, people: MakePeople, run_method: RunMethod) -> None:
    """Each part has the same share of epsilon: counts, prototypes, rows, what the gate learns."""
    noise, clip, keys = 0.1, 0.5, {"hidden": "256", "rounds": 2}
    keys |= {"name": name, "hyper": ONE if name == "fedsub" else GATED}
    federation = people(MANY, samples=4)
    (little, _), (much, _) = (
        watched(run_method, federation, n, clip, **keys) for n in (LITTLE, noise)
    )
    states = little.states[1], much.states[1]
    asked = states[0]["linear1.known"] & states[1]["linear1.known"]
    assert asked.sum() == 256
    # What noise does to counts moves means of 30 people by a few percent.
    found = (states[1]["linear1.means"] - states[0]["linear1.means"])[asked].numpy()
    parts = 3 if name == "fedsub" else 4
    assert np.std(found) == pytest.approx(noise * clip * sqrt(parts) / 30, rel=0.15)
    moved = (states[1]["people"] - states[0]["people"]).abs().max()
    assert moved <= 5 * noise * sqrt(2 * 3 * parts) + 0.5
    assert much.metric("epsilon").keys() == {(1, ""), (2, "")}


def test_noise_alone_asks_for_nothing(
    people: MakePeople, run_method: RunMethod, caplog: pytest.LogCaptureFixture
) -> None:
    run, _ = watched(run_method, people(((0, 1, 2),) * 6, samples=4), 1.0, 1.0, rounds=4)
    assert not any(state[f"{n}.known"].any() for state in run.states for n in LAYERS)
    assert "nothing is fused" in caplog.text
