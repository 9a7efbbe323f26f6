"""A turn: which round of how many, and the seed that all of a run's randomness follows from."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Turn:
    """The round that a device's or a server's half of a method works in.

    Parameters
    ----------
    round : from 1; 0 is before the first round.
    rounds : of the run in all.
    seed : of the run.
    """

    round: int
    rounds: int
    seed: int
