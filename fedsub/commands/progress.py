"""How far something is: bars on a terminal or below a notebook's cell, else lines now and then."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from html import escape
from typing import IO, TYPE_CHECKING, Any

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TaskProgressColumn,
    TextColumn,
    TimeRemainingColumn,
)

if TYPE_CHECKING:
    from fedsub.studies import runner
    from fedsub.studies.runner import Stage

#: Seconds from one line to the next; what begins or ends is told at once.
EVERY = 5.0
#: Seconds from one drawing of a notebook's bars to the next.
MOMENT = 0.2
#: Told of a task: its name, how much of it is done, and of how much.
Tell = Callable[[str, float, float], None]


def draws_bars(console: Console) -> bool:
    """Return whether a bar can move there; colours that are forced upon a file make none move."""
    return console.is_terminal and console.file.isatty() and not console.is_dumb_terminal


@contextmanager
def progress(console: Console, unit: str, names: Sequence[str] = ()) -> Iterator[Tell]:
    """Yield a function that shows how many rounds or people (`unit`) of a task are done.

    `names` are tasks that are known beforehand: their bars are there from the start.
    """
    if not draws_bars(console):
        shown = told_by(console)
        yield lambda name, done, total: shown.tell(
            name, done, total, f"{done:.0f} of {total:.0f} {unit}"
        )
        return
    columns = (TextColumn("{task.description:>8}"), BarColumn(), MofNCompleteColumn())
    with Progress(*columns, TextColumn(unit), TimeRemainingColumn(), console=console) as bar:
        yield bars(bar, names)


def bars(bar: Progress, names: Sequence[str] = ()) -> Tell:
    """Return a function that shows each task by a bar."""
    drawn = {name: bar.add_task(name, total=None) for name in names}

    def tell(name: str, done: float, total: float) -> None:
        if name not in drawn:
            drawn[name] = bar.add_task(name, total=total)
        bar.update(drawn[name], completed=done, total=total)

    return tell


class Pace:
    """Says of tasks how long each took, or how long it will take from the pace since it began."""

    def __init__(self) -> None:
        self._begun: dict[str, tuple[float, float]] = {}
        self._ended: dict[str, str] = {}

    def words(self, now: float, name: str, done: float, total: float) -> tuple[str, bool]:
        """Return ``, 0:00:12 left`` or the like, and whether a task begins or ends.

        It ends once, however often that is told.
        """
        first = name not in self._begun
        since, before = self._begun.setdefault(name, (now, done))
        took = now - since
        if done >= total:
            turning = name not in self._ended
            return self._ended.setdefault(name, "" if first else f", after {_shown(took)}"), turning
        if done > before:
            return f", {_shown(took * (total - done) / (done - before))} left", first
        return "", first


class Lines:
    """Tells by lines, by default on standard output, each there as soon as it is told."""

    def __init__(
        self, clock: Callable[[], float] = time.monotonic, file: IO[str] | None = None
    ) -> None:
        self._clock, self._file, self._pace, self._last = clock, file, Pace(), 0.0

    def tell(self, name: str, done: float, total: float, words: str) -> None:
        """Print a line where a task begins or ends, or no line came for a while."""
        now = self._clock()
        time_words, turning = self._pace.words(now, name, done, total)
        if turning or (done < total and now - self._last >= EVERY):
            self._last = now
            print(f"{name}: {words}{time_words}", flush=True, file=self._file)


class Cell:
    """Tells by bars below a notebook's cell, drawn in place: IPython shows them, nothing else."""

    def __init__(
        self, display: Callable[..., Any], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._display, self._handle = display, None
        self._clock, self._pace, self._last = clock, Pace(), 0.0
        self._rows: dict[str, tuple[float, float, str]] = {}

    def tell(self, name: str, done: float, total: float, words: str) -> None:
        """Draw the bars anew where a task begins or ends, or they stood still for a moment."""
        now = self._clock()
        time_words, turning = self._pace.words(now, name, done, total)
        self._rows[name] = done, total, words + time_words
        if self._handle is None:
            self._handle = self._display(self, display_id=True)
        elif turning or now - self._last >= MOMENT:
            self._handle.update(self)
        else:
            return
        self._last = now

    def _repr_html_(self) -> str:
        rows = (
            f"<tr><td>{escape(name)}</td><td><progress value='{done}' max='{total}'></progress>"
            f"</td><td style='text-align:left'>{escape(words)}</td></tr>"
            for name, (done, total, words) in self._rows.items()
        )
        return f"<table>{''.join(rows)}</table>"

    def __repr__(self) -> str:
        """Return a line for each task."""
        return "\n".join(f"{name}: {words}" for name, (_, _, words) in self._rows.items())


def told_by(console: Console) -> Cell | Lines:
    """Return a display where no bar can move: a notebook's cell, or lines."""
    if not console.is_jupyter:
        return Lines(file=console.file)
    from IPython.display import display  # it is there, as a notebook runs in it

    return Cell(display)


def _shown(seconds: float) -> str:
    return str(timedelta(seconds=round(seconds)))


#: Seconds over which the time left is estimated: a run may take an hour.
A_DAY = 86_400
#: Runs that are named in a line, of those that are trained at a time.
NAMED = 4


@contextmanager
def study_progress(console: Console) -> Iterator[runner.Progress]:
    """Yield a function that shows how far a study is."""
    if not draws_bars(console):
        shown = told_by(console)
        yield (
            lambda stage: (
                shown.tell(stage.name, stage.done, stage.total, in_words(stage))
                if stage.runs
                else None
            )
        )
        return
    columns = (
        TextColumn("{task.description:>8}"),
        BarColumn(),
        TaskProgressColumn(),
        TextColumn("of the work"),
        TimeRemainingColumn(elapsed_when_finished=True),
    )
    with Progress(*columns, console=console, speed_estimate_period=A_DAY) as bar:
        tell = bars(bar)
        yield lambda stage: tell(stage.name, stage.done, stage.total) if stage.runs else None


def in_words(stage: Stage) -> str:
    """Return the progress of a stage: ``3 of 24 runs ended (ditto-seed0 round 7 of 60), 15 %``."""
    each = [f"{name} round {round} of {rounds}" for name, (round, rounds) in stage.now.items()]
    if len(each) > NAMED:
        each[NAMED:] = [f"and {len(each) - NAMED} more"]
    now = f" ({', '.join(each)})" if each else ""
    return f"{stage.ended} of {stage.runs} runs ended{now}, {stage.done / stage.total:.0%}"
