"""An engine for studies of a few small runs."""

from collections.abc import Generator, Sequence
from pathlib import Path

from fedsub.studies.engine import Underway, federation_of, train_run, what_went_wrong
from fedsub.studies.study import Task


def in_this_process(
    tasks: Sequence[Task], folder: Path, underway: Underway
) -> Generator[tuple[Task, str | None], None, None]:
    """An engine that starts no process: that takes longer than these runs."""
    for task in tasks:
        error = None
        try:
            train_run(task, federation_of(task.config.data), folder / task.name)
        except Exception as raised:
            error = what_went_wrong(raised)
        yield task, error
