"""Windows over recordings: where they start and where time pauses, so that none spans a change."""

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedsub_data.preparing.members import Member
from fedsub_data.preparing.preparation import refused

Array = NDArray[Any]


def stretches(*columns: Array, breaks: Array | None = None) -> Iterator[tuple[int, int]]:
    """Yield ``[start, end)`` of every longest stretch of rows in which all `columns` stay equal.

    Parameters
    ----------
    columns : arrays [n], such as labels and users.
    breaks : bool [n] or None
        True where a row does not follow the one before it, such as after a pause.
    """
    n = len(columns[0])
    if n == 0:
        return
    new = np.zeros(n, np.bool_)
    new[0] = True
    for column in columns:
        new[1:] |= column[1:] != column[:-1]
    if breaks is not None:
        new |= breaks
    starts = np.flatnonzero(new)
    yield from zip(starts.tolist(), [*starts[1:].tolist(), n], strict=True)


def window_starts(start: int, end: int, window: int, step: int) -> range:
    """Return the first rows of windows of `window` rows in ``[start, end)``, `step` rows apart.

    What is left at the end is no window.
    """
    return range(start, end - window + 1, step)


class Clock:
    """Follows the time of one recording, read some rows at a time.

    Parameters
    ----------
    path : the file's name, for messages.
    rate_hz : rows per second.
    """

    def __init__(self, path: Member | str, rate_hz: float) -> None:
        self.path, self.rate_hz = path, rate_hz
        self._last = -np.inf

    def pauses(self, seconds: NDArray[np.float64], line: int) -> NDArray[np.bool_]:
        """Return bool [n]: True where a row does not follow the one before it at the rate.

        Parameters
        ----------
        seconds : float64 [n], the time of the next rows.
        line : number of their first line.

        Raises DataError where the time repeats or runs backwards; it names the line.
        """
        steps = np.diff(seconds, prepend=self._last)
        backwards = np.flatnonzero(steps <= 0)
        if len(backwards):
            row = int(backwards[0])
            before = seconds[row] - steps[row]
            got = f"{seconds[row]:.10g} s after {before:.10g} s"
            raise refused(str(self.path), got, "a time that only runs forwards", line + row)
        self._last = seconds[-1]
        # A row is late once it is nearer to the place of the next.
        return steps > 1.5 / self.rate_hz
