"""Noise on sums of prototypes: of prototypes no longer than said, on counts as on means."""

from __future__ import annotations

from math import floor, sqrt
from typing import Any

import numpy as np
import pytest
import torch

from fedsub_core.errors import RunError
from fedsub_core.turn import Turn

from ..finished_run import FinishedRun, MakePeople, RunMethod
from ..noise_of_sums import LITTLE, LONG, SUMS, NoiseOfSums

RUN = SUMS | {"hidden": "16", "rounds": 2}
#: People's classes: so many people that noise on counts leaves enough of them for sure.
MANY = ((0, 1, 2),) * 30
PROTOTYPES, HELD, HOLDERS = "prototypes", "held", "holders"


def with_noise(
    run_method: RunMethod, people: MakePeople, name: str, noise: float, clip: float, **keys: Any
) -> FinishedRun:
    hyper = {"lam": 0.0}
    keys = RUN | {"dp_noise": noise, "dp_clip_prototypes": clip} | keys
    run = run_method(people(MANY, samples=3), name, hyper=hyper, **keys)
    assert not run.refusals and not run.metric("secure_lost")
    return run


def test_hardly_any_noise_changes_nothing(people: MakePeople, run_method: RunMethod) -> None:
    plain = run_method(people(), "fedproto", **RUN)
    run = run_method(people(), "fedproto", dp_noise=LITTLE, dp_clip_prototypes=LONG, **RUN)
    assert run.states[-1][HELD].all()
    for ours, theirs in zip(run.states, plain.states, strict=True):
        for key, tensor in theirs.items():
            torch.testing.assert_close(ours[key], tensor, atol=1e-5, rtol=0)


def test_all_prototypes_of_a_person_are_shortened_together(
    people: MakePeople, run_method: RunMethod
) -> None:
    alone = {"lam": 0.0}  # for plain prototypes come a round earlier
    clear = run_method(people(), "fedproto", hyper=alone, **RUN | {"secure_aggregation": False})
    sent = [
        np.stack([clear.grid.uploads[2, f"p{i}"].rows(PROTOTYPES)[c] for c in range(3)])
        for i in range(1, 5)
    ]
    clip = float(np.median([np.linalg.norm(one) for one in sent]))
    expected = np.mean([v * min(1.0, clip / float(np.linalg.norm(v))) for v in sent], axis=0)
    keys = RUN | {"dp_noise": LITTLE, "dp_clip_prototypes": clip}
    run = run_method(people(), "fedproto", hyper=alone, **keys)
    np.testing.assert_allclose(run.states[-1][PROTOTYPES].numpy(), expected, atol=1e-4)


@pytest.mark.parametrize("name", ["protohar", "fedproto"])
def test_noise_on_each_part_is_as_large_as_said(
    name: str, people: MakePeople, run_method: RunMethod, noise_of_sums: NoiseOfSums
) -> None:
    """A body, counts and prototypes each have the same share of epsilon."""
    noise, clip, hidden = 0.3, 2.0, 32
    run = with_noise(run_method, people, name, noise, clip, hidden=str(hidden), dp_clip=0.5)
    assert run.states[-1][HELD].all()
    body, parts = (4 * hidden + hidden, 3) if name == "protohar" else (0, 2)
    each = noise * sqrt(parts)
    for round in (1, 2):
        noise_of_sums.check(
            round,
            [(body, each * 0.5, False), (3, each * sqrt(3), True), (3 * hidden, each * clip, True)],
        )
    for (counts, prototypes), (_, bound) in zip(
        noise_of_sums.lengths, noise_of_sums.parts, strict=True
    ):
        assert counts <= sqrt(3) and prototypes <= bound.longest == clip
    assert run.metric("epsilon").keys() == {(1, ""), (2, "")}


def test_a_sum_is_opened_of_people_enough_whatever_noise_did_to_counts(
    people: MakePeople, run_method: RunMethod
) -> None:
    run = with_noise(run_method, people, "fedproto", 0.3, 2.0)
    state, clients = run.states[-1], run.strategy.population.clients
    addends = run.strategy.addends(state, clients, Turn(3, 3, 0))
    slack = floor(5 * 0.3 * sqrt(2 * 3) + 0.5)
    assert addends is not None
    assert addends.opened_of == 30 - (int(state[HOLDERS].min()) - slack - 3)


def test_noise_alone_asks_for_no_class(
    people: MakePeople, run_method: RunMethod, caplog: pytest.LogCaptureFixture
) -> None:
    """Of six people counts with this noise say nothing: no class is asked for."""
    rounds = 6
    keys = RUN | {"rounds": rounds, "dp_noise": 1.0}
    run = run_method(people(((0, 1, 2),) * 6, samples=4), "fedproto", **keys)
    assert not run.states[-1][HELD].any()
    assert all(0 <= n <= 6 for state in run.states for n in state[HOLDERS].tolist())
    assert "no prototypes of 3 classes" in caplog.text


def test_a_bound_that_rounding_would_fill_is_refused(
    people: MakePeople, run_method: RunMethod
) -> None:
    said = r"dp-clip-prototypes = 1e-05: got 48 numbers, moved by .* expected a tenth"
    with pytest.raises(RunError, match=said):
        run_method(people(), "fedproto", dp_noise=1.0, dp_clip_prototypes=1e-5, **RUN)
