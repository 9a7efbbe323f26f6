"""A column of time of which most cannot be read."""

from __future__ import annotations

import numpy as np

from fedsub_core.errors import DataError
from fedsub_data.importing.source import Rows, Source

#: More than this share of a column's times, and it is no column of times.
_MOST = 0.5


class UnreadTimes:
    """Counts times that cannot be read.

    Parameters
    ----------
    source : its time is looked at.
    """

    def __init__(self, source: Source) -> None:
        self._source = source
        self._rows = self._unread = 0
        self._first: tuple[int, int] | None = None

    def add(self, rows: Rows) -> None:
        """Count one person's."""
        if rows.t is None:
            return
        unread = ~np.isfinite(rows.t)
        self._rows += len(rows)
        self._unread += int(unread.sum())
        if self._first is None and unread.any():
            at = int(unread.argmax())
            self._first = int(rows.file[at]), int(rows.row[at])

    def check(self) -> None:
        """Refuse a column of which most is no time.

        Raises
        ------
        DataError
            It shows the first such value, and what is read.
        """
        if self._first is None or self._unread <= _MOST * self._rows:
            return
        place = self._source.place(*self._first, self._source.time)
        raise DataError(
            f"{place}: {self._unread:,} of {self._rows:,} times cannot be read; expected numbers, "
            "or dates with the year first, such as 2025-05-09 08:00:00.02 or "
            "2025-05-09T08:00:00.02+02:00. Write them so, name another column with --time, or give "
            "--time none and --rate if rows follow one another evenly"
        )
