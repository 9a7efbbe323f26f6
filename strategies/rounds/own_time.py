"""How long a method's own server half takes: what it sends, checks and makes of what came."""

from __future__ import annotations

import time


class OwnTime:
    """Seconds that passed in ``with`` blocks, until they are taken."""

    def __init__(self) -> None:
        self._seconds = self._since = 0.0

    def __enter__(self) -> None:
        self._since = time.perf_counter()

    def __exit__(self, *_: object) -> None:
        self._seconds += time.perf_counter() - self._since

    def take(self) -> float:
        """Return the seconds since they were last taken."""
        taken, self._seconds = self._seconds, 0.0
        return taken
