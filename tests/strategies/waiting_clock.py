"""A clock that only waiting moves, for grids that a test scripts."""

import math

from strategies.rounds.clock import Clock

#: When it begins, s.
BEGIN = 1000.0


class WaitingClock(Clock):
    """A clock that is moved by waiting, or by the test."""

    def __init__(self) -> None:
        self.moved = 0.0

    @property
    def now(self) -> float:
        return BEGIN + self.moved

    @now.setter
    def now(self, seconds: float) -> None:
        self.moved = seconds - BEGIN

    def wait(self, seconds: float, until: float = math.inf) -> None:
        self.moved += max(min(seconds, until - self.now), 0.0)
