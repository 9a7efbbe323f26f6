"""Virtual time: it goes on from one event to the next."""

import math
from collections.abc import Callable

from strategies.rounds.clock import Clock

#: Seconds that are waited at once while nothing happens.
COARSE = 60.0


class FleetClock(Clock):
    """A clock that only waiting moves, from one event to the next.

    Parameters
    ----------
    end : when the simulation is over, s.
    next_event : returns when something happens next that a waiting server can notice.
    """

    def __init__(self, end: float, next_event: Callable[[], float]) -> None:
        self.end, self._next_event, self._now = end, next_event, 0.0

    @property
    def now(self) -> float:
        """Seconds since the first midnight."""
        return self._now

    wall = now

    def wait(self, seconds: float, until: float = math.inf) -> None:
        """Go on to the next event, or as far as there is nothing to do; raises as :meth:`skip`."""
        soon = min(self._next_event(), self._now + COARSE)
        self.skip(min(max(self._now + seconds, soon), until))

    def skip(self, moment: float) -> None:
        """Go on to a moment, if it is still to come.

        Raises DaysOver if that is the end, or after it.
        """
        self._now = max(self._now, moment)
        if self._now >= self.end:
            raise DaysOver


class DaysOver(Exception):
    """All days have passed: the round that goes on is no part of the results."""
