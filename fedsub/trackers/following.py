"""Trackers of a run's folder that keep up with it."""

import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path
from typing import Protocol

from fedsub.report.report import REPORT_FILE
from fedsub.trackers.mlflow import MlflowRuns
from fedsub.trackers.series import Tracked, tracked
from fedsub.trackers.tensorboard import EventFiles
from fedsub_core.errors import RunError


class Tracker(Protocol):
    """What takes a run's numbers; what it has already, it does not take twice."""

    @property
    def place(self) -> str:
        """Where the numbers are, for a person to read."""

    def update(self, found: Sequence[Tracked]) -> None:
        """Take what is new."""


class Trackers:
    """The trackers that are wanted of a run's folder; none is fine, too."""

    def __init__(self, folder: Path, trackers: Sequence[Tracker]) -> None:
        self.folder, self.trackers = folder, trackers
        self._page = 0

    def update(self) -> None:
        """Have all take what is new.

        Raises RunError if the run cannot be read, or a tracker fails.
        """
        if self.trackers:
            self._tell(tracked(self.folder))

    def pause(self, seconds: float) -> None:
        """Wait as a watched report does between two looks; if its page is new, update first."""
        page = self.folder / REPORT_FILE
        now = page.stat().st_mtime_ns if page.exists() else 0
        if self.trackers and now != self._page:
            with suppress(RunError):  # a database was being made: again after the next look
                found = tracked(self.folder)
                self._page = now
            if self._page == now:
                self._tell(found)
        time.sleep(seconds)

    def places(self) -> list[str]:
        """Return where the numbers are, a line for each tracker."""
        return [tracker.place for tracker in self.trackers]

    def _tell(self, found: Sequence[Tracked]) -> None:
        for tracker in self.trackers:
            tracker.update(found)


@contextmanager
def trackers(folder: Path, tensorboard: bool, mlflow: str | None) -> Iterator[Trackers]:
    """Have the trackers that are wanted of the run in `folder`, `mlflow` by its URI."""
    with ExitStack() as stack:
        wanted: list[Tracker] = []
        if tensorboard:
            wanted.append(stack.enter_context(closing(EventFiles(folder))))
        if mlflow:
            wanted.append(MlflowRuns(mlflow, folder.resolve().name))
        yield Trackers(folder, wanted)
