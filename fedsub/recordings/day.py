"""A day in classes: how long each lasted, and when."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedsub.recordings.answers import UNKNOWN, Answered

#: Time between two windows that is no pause, s: a rounding error.
_TOUCH = 1e-3


def moment(seconds: float, tick: float | None) -> str:
    """Return a time as the recording has it: a number in its unit, or a date in UTC.

    `tick`: seconds of one unit; None: the recording has dates.
    """
    if tick is None:
        return datetime.fromtimestamp(seconds, UTC).isoformat(" ", "milliseconds")[:23]
    value = seconds / tick
    return f"{value:.0f}" if tick < 1 else f"{value:.3f}".rstrip("0").rstrip(".")


@dataclass
class Stays:
    """The stays of one recording: a class each, and when it began and ended, s."""

    recording: str
    tick: float | None
    labels: list[int] = field(default_factory=list)
    begins: list[float] = field(default_factory=list)
    ends: list[float] = field(default_factory=list)

    def add(self, label: int, begin: float, end: float) -> None:
        """Put a window behind the others; up to its begin, it takes the place of the last one."""
        if self.ends and self.begins[-1] < begin < self.ends[-1]:
            self.ends[-1] = begin
        if self.ends and self.labels[-1] == label and abs(begin - self.ends[-1]) < _TOUCH:
            self.ends[-1] = end
            return
        self.labels.append(label)
        self.begins.append(begin)
        self.ends.append(end)

    def cells(self, count: int, classes: int) -> NDArray[np.int64]:
        """Return the class that lasts longest in each of `count` equal times, [count].

        -1 is unknown, -2 stands where there is no window.
        """
        first, last = min(self.begins), max(self.ends)
        edges = np.linspace(first, last, count + 1)
        time = np.zeros((count, classes + 1))
        width = (last - first) / count
        for label, begin, end in zip(self.labels, self.begins, self.ends, strict=True):
            low = min(count - 1, int((begin - first) / width))
            high = min(count - 1, int((end - first) / width))
            inside = np.minimum(end, edges[low + 1 : high + 2])
            time[low : high + 1, label] += inside - np.maximum(begin, edges[low : high + 1])
        longest: NDArray[np.int64] = time.argmax(axis=1)
        longest[longest == classes] = -1
        longest[time.max(axis=1) <= 0] = -2
        return longest


@dataclass
class Day:
    """The answers for some recordings, joined to stays as they come.

    Parameters
    ----------
    windows : how many were answered.
    """

    classes: Sequence[str]
    stays: dict[str, Stays] = field(default_factory=dict)
    windows: int = 0

    def add(self, answered: Answered) -> None:
        """Take answers for windows in a row."""
        name = answered.recording
        stays = self.stays.setdefault(name, Stays(name, answered.tick))
        for label, begin in zip(answered.label.tolist(), answered.begins.tolist(), strict=True):
            stays.add(label, begin, begin + answered.length_s)
        self.windows += len(answered.label)

    @property
    def about(self) -> dict[str, Any]:
        """What a document of answers says of all of them."""
        return {"classes": self.classes, "minutes": self.minutes()}

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the classes, and of what is unknown, which stands last."""
        return (*self.classes, UNKNOWN)

    def minutes(self, recording: str | None = None) -> dict[str, float]:
        """Return the minutes of each class, of one recording or of all; unknown if there is any."""
        chosen = [s for name, s in self.stays.items() if recording in (None, name)]
        total = dict.fromkeys(self.names, 0.0)
        for stays in chosen:
            for label, begin, end in zip(stays.labels, stays.begins, stays.ends, strict=True):
                total[self.names[label]] += (end - begin) / 60
        if not total[UNKNOWN]:
            del total[UNKNOWN]
        return total
