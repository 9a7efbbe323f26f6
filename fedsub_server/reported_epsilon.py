"""What a run's noise has spent, and what it hides: for whoever reads its results."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

from fedsub_server.rundb import RunDatabase

#: Of each option of a noise: its delta's, and what its epsilon is of.
NOISES = {
    "dp-noise": ("dp-delta", "all of one person, in the means that devices are sent"),
    "fedsub-ridge.noise": ("fedsub-ridge.noise-delta", "one sample, in the sums that devices get"),
} | {
    f"{method}.prototype-noise": (
        f"{method}.prototype-delta",
        "one person's samples of a class, in their prototype, of whoever spent most",
    )
    for method in ("fedsub", "fedsub-gated")
}


class Epsilon(NamedTuple):
    """What noise has spent, at which delta, and what it is of; all None without noise."""

    epsilon: float | None = None
    epsilon_delta: float | None = None
    epsilon_of: str | None = None


def reported_epsilon(db: RunDatabase, config: Mapping[str, Any], method: str) -> Epsilon:
    """Return the greatest epsilon that a run has reported."""
    # Of each person the newest: who was silent since then has spent it all the same.
    last = {r.client: r.value for r in db.metrics("epsilon") if math.isfinite(r.value)}
    for option, (delta, of) in NOISES.items():
        mine = option.partition(".")[0] in (method, option)
        if last and mine and config.get(option) not in (None, 0, "none"):
            return Epsilon(max(last.values()), config.get(delta), of)
    return Epsilon()
