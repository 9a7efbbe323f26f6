"""How far something is: a bar on a terminal, else a line now and then, as in a batch job's log."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from typing import IO

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

#: Seconds from one line to the next; what begins or ends is told at once.
EVERY = 5.0
#: Told of a task: its name, how much of it is done, and of how much.
Tell = Callable[[str, float, float], None]


def draws_bars(console: Console) -> bool:
    """Return whether a bar can move there; colours that are forced upon a file make none move."""
    return console.is_terminal and console.file.isatty() and not console.is_dumb_terminal


@contextmanager
def progress(console: Console, unit: str, names: Sequence[str] = ()) -> Iterator[Tell]:
    """Yield what tells how many rounds or people (`unit`) of a task are done.

    `names` are tasks that are known beforehand: their bars are there from the start.
    """
    if not draws_bars(console):
        lines = Lines(file=console.file)
        yield lambda name, done, total: lines.tell(
            name, done, total, f"{done:.0f} of {total:.0f} {unit}"
        )
        return
    columns = (TextColumn("{task.description:>8}"), BarColumn(), MofNCompleteColumn())
    with Progress(*columns, TextColumn(unit), TimeRemainingColumn(), console=console) as bar:
        yield bars(bar, names)


def bars(bar: Progress, names: Sequence[str] = ()) -> Tell:
    """Return what tells of a task by a bar of its own."""
    drawn = {name: bar.add_task(name, total=None) for name in names}

    def tell(name: str, done: float, total: float) -> None:
        if name not in drawn:
            drawn[name] = bar.add_task(name, total=total)
        bar.update(drawn[name], completed=done, total=total)

    return tell


class Lines:
    """Tells by lines, by default on standard output, each there as soon as it is told."""

    def __init__(
        self, clock: Callable[[], float] = time.monotonic, file: IO[str] | None = None
    ) -> None:
        self._clock, self._file = clock, file
        self._begun: dict[str, tuple[float, float]] = {}
        self._last = 0.0

    def tell(self, name: str, done: float, total: float, words: str) -> None:
        """Print a line where a task begins or ends, or no line came for a while.

        `words` say how far it is; the time that is left follows from the pace since it began here.
        """
        now = self._clock()
        first = name not in self._begun
        since, before = self._begun.setdefault(name, (now, done))
        if not first and done < total and now - self._last < EVERY:
            return
        self._last = now
        took = now - since
        if done >= total:
            words += "" if first else f", after {_shown(took)}"
        elif done > before:
            words += f", {_shown(took * (total - done) / (done - before))} left"
        print(f"{name}: {words}", flush=True, file=self._file)


def _shown(seconds: float) -> str:
    return str(timedelta(seconds=round(seconds)))
