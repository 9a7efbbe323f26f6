"""How far a study is: a bar for each of its stages, or lines."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

from fedsub.commands.progress import Lines, bars, draws_bars
from fedsub.studies import runner
from fedsub.studies.runner import Stage

#: Seconds over which the time left is estimated: a run may take an hour.
A_DAY = 86_400
#: Runs that are named in a line, of those that are trained at a time.
NAMED = 4


@contextmanager
def study_progress(console: Console) -> Iterator[runner.Progress]:
    """Yield what a study tells how far it is."""
    if not draws_bars(console):
        lines = Lines(file=console.file)
        yield (
            lambda stage: (
                lines.tell(stage.name, stage.done, stage.total, in_words(stage))
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
    """Return how far a stage is: ``3 of 24 runs ended (ditto-seed0-1f3a round 7 of 60), 15 %``."""
    each = [f"{name} round {round} of {rounds}" for name, (round, rounds) in stage.now.items()]
    if len(each) > NAMED:
        each[NAMED:] = [f"and {len(each) - NAMED} more"]
    now = f" ({', '.join(each)})" if each else ""
    return f"{stage.ended} of {stage.runs} runs ended{now}, {stage.done / stage.total:.0%}"
