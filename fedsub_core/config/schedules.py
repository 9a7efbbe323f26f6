"""Schedules of the learning rate over rounds: factors that follow from a round's number alone.

So a run can be given more rounds, and a device that comes late has everybody's rate.
"""

from __future__ import annotations

from functools import lru_cache
from math import cos, isfinite, pi
from typing import Any

from fedsub_core.config.parts import part_of, parts
from fedsub_core.errors import ConfigError

#: The text of no schedule.
CONSTANT = "constant"


def constant(round: int) -> float:
    """Return 1."""
    return 1.0


def cosine(round: int, rounds: int, least: float = 0.0) -> float:
    """Return a half wave of the cosine from 1 in the first round to `least` in round `rounds`.

    Source: Loshchilov and Hutter, SGDR, ICLR 2017, eq. 5, without restarts.
    """
    return least + (1 - least) * (1 + cos(pi * _done(round, rounds))) / 2


def linear(round: int, rounds: int, least: float = 0.0) -> float:
    """Return a line from 1 in the first round to `least` in round `rounds`."""
    return 1 - (1 - least) * _done(round, rounds)


def steps(round: int, at: Any, factor: float = 0.1) -> float:
    """Return `factor` to the power of how many of the rounds `at` have begun."""
    begun = (at,) if isinstance(at, int) else at
    return float(factor ** sum(round >= one for one in begun))


def warmup(round: int, rounds: int) -> float:
    """Return ``round / rounds`` up to round `rounds`, then 1."""
    _check_rounds(rounds)
    return min(1.0, round / rounds)


SCHEDULES = {one.__name__: one for one in (constant, cosine, linear, steps, warmup)}


@lru_cache(1024)
def rate_factor(text: str, round: int) -> float:
    """Return the product of a schedule's factors in a round, from 1 on.

    Raises ConfigError if there is no such schedule, it lacks an argument, or its factor is below 0.
    """
    product = 1.0
    for part in parts(text, "schedule"):
        factor = part.bound(part_of(part, SCHEDULES, "schedule"), "schedule", taken=1)
        try:
            found = float(factor(round))
        except (TypeError, ValueError, ArithmeticError) as error:
            raise ConfigError(f"schedule: got {text!r}: {error}, expected numbers") from error
        if not (isfinite(found) and found >= 0):
            raise ConfigError(
                f"schedule: got {text!r}, which is {found:g} in round {round}, expected 0 or more"
            )
        product *= found
    return product


def _done(round: int, rounds: int) -> float:
    """Return the share of rounds that lie before this one, in [0, 1]."""
    _check_rounds(rounds)
    return min(1.0, (round - 1) / max(1, rounds - 1))


def _check_rounds(rounds: object) -> None:
    if type(rounds) is not int or rounds < 1:
        raise ValueError(f"rounds = {rounds!r}, expected a whole number of at least 1")
