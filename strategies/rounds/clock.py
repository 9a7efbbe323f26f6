"""The clock that a server's waits go by: the link has it, so a simulated link brings its own."""

from __future__ import annotations

import math
import time


class Clock:
    """The clock of this machine."""

    @property
    def now(self) -> float:
        """Seconds since some fixed moment; they never go back."""
        return time.monotonic()

    @property
    def wall(self) -> float:
        """Seconds since 1970, by which a process that starts again goes on; they may go back."""
        return time.time()

    def wait(self, seconds: float, until: float = math.inf) -> None:
        """Let some seconds pass, but none beyond `until`.

        Who waits has nothing else to do before `until`: a simulated clock may go on to the next
        moment at which something happens.
        """
        time.sleep(max(min(seconds, until - self.now), 0.0))
