"""A SuperLink that writes less: its database takes one write at a time, and every call waits.

Flower 1.39 looks at each call of a device, and each object of a message, whether a task's heartbeat
is overdue: two writes, nearly always of nothing. And it adds the call's bytes to the run's row: one
more. Here both are done once a second.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from fedsub_core.flower.superlink import link_state

#: Between two looks for overdue tasks, whose heartbeats come every half minute; and as late are the
#: bytes of a run that Flower shows. Those of the last second before a SuperLink ends are lost.
EVERY_SECONDS = 1.0
#: What is replaced.
LOOK, ADD = "_cleanup_expired_task_tokens", "store_traffic"


class Seldom:
    """What one SuperLink has still to write.

    Parameters
    ----------
    look, add : Flower's own: look for overdue tasks; add bytes to a run's.
    """

    def __init__(
        self,
        look: Callable[[Any], None],
        add: Callable[..., None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._look, self._add, self._clock = look, add, clock
        self._lock = threading.Lock()
        self._due = clock()
        self._bytes: dict[int, tuple[int, int]] = {}

    def look(self, state: Any) -> None:
        """Look for overdue tasks, and write the bytes of runs, if it is time to."""
        with self._lock:
            if (now := self._clock()) < self._due:
                return
            self._due = now + EVERY_SECONDS
            counted, self._bytes = self._bytes, {}
        self._look(state)
        for run, (sent, received) in counted.items():
            with suppress(ValueError):  # the run is no longer there
                self._add(state, run, bytes_sent=sent, bytes_recv=received)

    def add(self, state: Any, run: int, *, bytes_sent: int, bytes_recv: int) -> None:
        """Count bytes of a run.

        Raises
        ------
        ValueError
            As Flower's: if one is below 0, or both are 0.
        """
        if min(bytes_sent, bytes_recv) < 0 or bytes_sent == bytes_recv == 0:
            self._add(state, run, bytes_sent=bytes_sent, bytes_recv=bytes_recv)
            return
        with self._lock:
            sent, received = self._bytes.get(run, (0, 0))
            self._bytes[run] = sent + bytes_sent, received + bytes_recv


def write_seldom() -> None:
    """Have the SuperLinks of this process write so.

    Raises
    ------
    RunError
        If Flower no longer has what is to be replaced.
    """
    flower = link_state(LOOK, ADD)
    seldom = Seldom(getattr(flower, LOOK), getattr(flower, ADD))

    def look(self: Any) -> None:
        seldom.look(self)

    def add(self: Any, run_id: int, *, bytes_sent: int, bytes_recv: int) -> None:
        seldom.add(self, run_id, bytes_sent=bytes_sent, bytes_recv=bytes_recv)

    setattr(flower, LOOK, look)
    setattr(flower, ADD, add)
