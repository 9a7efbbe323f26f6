"""Signals that ask a program to end, noticed where it can: between two steps, not inside one."""

from __future__ import annotations

import signal
import threading
from types import FrameType
from typing import Any

_ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Interrupted(KeyboardInterrupt):
    """A signal asked us to end."""

    def __init__(self, number: int) -> None:
        super().__init__(f"ended by {signal.Signals(number).name}")
        self.number = number


class EndSignals:
    """Keeps SIGINT, SIGTERM and SIGHUP in mind while a ``with`` block runs in the main thread.

    Whoever waits in the block asks :meth:`raise_received`; at the latest its end does.
    """

    def __init__(self) -> None:
        self._received: list[int] = []
        self._handlers: dict[signal.Signals, Any] = {}

    @property
    def impatient(self) -> bool:
        """Whether somebody asked a second time."""
        return len(self._received) > 1

    def raise_received(self) -> None:
        """Raise :class:`Interrupted` if a signal has come."""
        if self._received:
            raise Interrupted(self._received[0])

    def __enter__(self) -> EndSignals:
        if threading.current_thread() is threading.main_thread():
            for number in _ENDING:
                # Ignored by nohup, and that is to stay.
                if number != signal.SIGHUP or signal.getsignal(number) != signal.SIG_IGN:
                    self._handlers[number] = signal.signal(number, self._notice)
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        for number, handler in self._handlers.items():
            signal.signal(number, handler)
        if kind is None:
            self.raise_received()

    def _notice(self, number: int, _: FrameType | None) -> None:
        self._received.append(number)
