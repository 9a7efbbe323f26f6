"""FedSub's sums with noise: all rows of a cluster, short ones, and nothing below enough people."""

from __future__ import annotations

from math import sqrt
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from fedsub_client.in_sums import Repeated
from fedsub_client.learner import make_learner
from fedsub_client.methods.fedsub.summed import ASKED_FOR, NUMBERS
from fedsub_core.config.settings import TrainingSettings
from fedsub_core.methods.fedsub_sums import ASKED, ASKED_UNITS, OPEN
from fedsub_core.methods.table import METHODS
from fedsub_core.models.kinds import mlp
from fedsub_core.secure.cluster_slots import Layout, digest_of, one_class_each
from fedsub_core.secure.noised_slots import bounded, without_units
from fedsub_core.secure.quantise import Levels
from fedsub_core.secure.slots import RANGE, levels_of
from fedsub_core.wire.bundles import Bits, Bundle, Floats

from ...finished_run import FinishedRun, MakePeople, RunMethod
from ...noise_of_sums import LITTLE, LONG, SUMS, NoiseOfSums, slots_of

RUN = SUMS | {"hidden": "8", "rounds": 3}
ONE = {"k_selection": "fixed:1", "fusion": "avg", "prototype": "embedding"}
GATED = {"k_selection": "fixed:1", "prototype": "embedding", "score": "one", "impute": False}
LAYERS = ("linear1", "linear2")


def watched(
    run_method: RunMethod, federation: Any, noise: float, clip: float, **keys: Any
) -> tuple[FinishedRun, list[dict[str, dict[str, Tensor]]]]:
    """Return a run, and what each person keeps after each of its rounds."""
    kept: list[dict[str, dict[str, Tensor]]] = []

    def note(round: int, run: FinishedRun) -> None:
        states = run.client_states()
        kept.append({c: {n: t.clone() for n, t in s.items()} for c, s in states.items()})

    keys = RUN | {"hyper": ONE, "dp_noise": noise, "dp_clip": clip} | keys
    keys = {"dp_clip_prototypes": clip} | keys
    name = keys.pop("name", "fedsub")
    run = run_method(federation, name, after_round=note, **keys)
    assert not run.refusals and not run.metric("secure_lost")
    return run, kept


def rows(state: dict[str, Tensor], layer: str, model: str = "model.") -> Tensor:
    weight, bias = (state[f"{model}{layer}.{of}"] for of in ("weight", "bias"))
    return torch.cat([weight, bias[..., None]], -1)


@pytest.mark.parametrize("clip", [LONG, 0.3])
def test_means_are_of_all_peoples_rows_as_far_as_they_may_move(
    clip: float, people: MakePeople, run_method: RunMethod, noise_of_sums: NoiseOfSums
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
    # Behind three counts of people, and three of members.
    values = torch.tensor(np.stack(noise_of_sums.values[-4:])).float()
    near = values[:, 6 : 6 + 3 * 8].view(4, 3, 8)
    length = near.flatten(1).norm(dim=1).clamp(min=clip)[:, None, None]
    centroids = (near * clip / length).mean(0)
    torch.testing.assert_close(run.states[1]["centroids"][:, 0], centroids, atol=2e-4, rtol=0)
    assert run.states[1]["people"].tolist() == [[4]] * 3


@pytest.mark.parametrize("name", ["fedsub", "fedsub-gated"])
def test_noise_on_each_part_is_as_large_as_said(
    name: str, people: MakePeople, run_method: RunMethod, noise_of_sums: NoiseOfSums
) -> None:
    """Counts, prototypes, rows and what the gate learns from have the same share of epsilon.

    People are enough for two clusters of a class, and hold samples back for the gate.
    """
    noise, clip, near = 0.1, 0.5, 1.5
    hyper = (ONE if name == "fedsub" else GATED) | {"k_selection": "fixed:2"}
    keys = {"name": name, "hyper": hyper, "rounds": 7, "dp_clip_prototypes": near}
    federation = people(((0, 1, 2),) * 40, samples=10)
    run, _ = watched(run_method, federation, noise, clip, **keys)
    bounds = sqrt(2 * 3), near, clip, 1.0, sqrt(2), 3 * sqrt(3 * 6)
    made = list(zip(noise_of_sums.parts, noise_of_sums.lengths, strict=True))
    assert len(made) == 40 * 7
    most = [0.0] * len(made[0][0])
    for round in range(1, 8):
        sizes = [part.numbers for part in made[40 * round - 1][0]]
        each = noise * sqrt(sum(size > 0 for size in sizes))
        noise_of_sums.check(
            round, [(size, each * bound, True) for size, bound in zip(sizes, bounds, strict=False)]
        )
        for _, lengths in made[40 * round - 40 : 40 * round]:
            assert all(one <= c * (1 + 1e-9) for one, c in zip(lengths, bounds, strict=False))
            most = [max(pair) for pair in zip(most, lengths, strict=True)]
    # All parts were asked for, and prototypes and rows had to be shortened.
    assert all(most) and min(most[1] / near, most[2] / clip) > 0.99
    assert max(state["open"].sum(1).max() for state in run.states) == 2
    assert run.metric("epsilon").keys() == {(round, "") for round in range(1, 8)}


def test_noise_alone_asks_for_nothing(
    people: MakePeople, run_method: RunMethod, caplog: pytest.LogCaptureFixture
) -> None:
    run, _ = watched(run_method, people(((0, 1, 2),) * 6, samples=4), 1.0, 1.0, rounds=4)
    assert not any(state[f"{n}.known"].any() for state in run.states for n in LAYERS)
    assert "nothing is fused" in caplog.text


def test_a_repeated_round_adds_the_same_by_other_levels_and_no_more_than_may_be() -> None:
    card, model = METHODS["fedsub"], mlp(3, 6, hidden=(4,))
    hyper, settings = card.hyperparameters(**ONE), TrainingSettings(lr=0.1)
    learner = make_learner(card, model, settings, hyper, sums=True, noised=True)
    each, stream = np.ones((6, 1), np.bool_), np.random.default_rng(3)
    asks = {OPEN: each, ASKED: each}
    for layer in model.affine:
        # Of each unit in one class.
        asks[layer.name + ASKED_UNITS] = np.eye(6, layer.units, dtype=np.bool_)
    parts = bounded(without_units(Layout.of(model, hyper)), asks, 0.5, 2.0, {})
    numbers = np.concatenate([np.ones(12), stream.normal(size=sum(p.numbers for p in parts[1:]))])
    upload = Bundle(9, tensors={NUMBERS: Floats(numbers.astype(np.float32))})
    download = Bundle(tensors={name: Bits(mask) for name, mask in asks.items()})
    fine, coarse = (
        Levels(8.0, 1, Levels.among(people, 1, 8.0).each, 0.5, 2.0) for people in (4, 40_000)
    )
    state = {ASKED_FOR: torch.tensor([digest_of(asks)])}
    again = Repeated(fine, coarse, 9, state, download)
    found = learner.vector_again(learner.vector(upload, download, fine), again)
    own, made = (slots_of(coarse, one) for one in (found, learner.vector(upload, download, coarse)))
    np.testing.assert_allclose(own, made, atol=2 * RANGE / levels_of(coarse).each)
    ends = np.cumsum([part.numbers for part in parts])[:-1]
    counts, prototypes, rows = (float(np.linalg.norm(one)) for one in np.split(own, ends))
    assert counts == sqrt(12) and 1.9 < prototypes <= 2.0 and 0.4 < rows <= 0.5
