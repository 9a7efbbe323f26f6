"""Columns of time of which most cannot be read."""

from __future__ import annotations

import numpy as np

from fedsub_core.errors import DataError
from fedsub_core.spelling import spelt
from fedsub_data.importing.dates import ORDERS
from fedsub_data.importing.options import ImportOptions
from fedsub_data.importing.source import Rows, Source

#: The ninth of May, by what stands first.
_SHOWN = {"year-first": "2025-05-09", "day-first": "09.05.2025", "month-first": "05/09/2025"}
#: More than this share of a column's times, and it is no column of times.
_MOST = 0.5


class UnreadTimes:
    """Counts of times that cannot be read.

    Parameters
    ----------
    source : of the column of time.
    options : ``dates`` counts.
    """

    def __init__(self, source: Source, options: ImportOptions) -> None:
        self._source, self._options = source, options
        self._rows = self._unread = 0
        self._first: tuple[int, int] | None = None

    def add(self, rows: Rows) -> None:
        """Count one person's times."""
        if rows.t is None:
            return
        unread = ~np.isfinite(rows.t)
        self._rows += len(rows)
        self._unread += int(unread.sum())
        if self._first is None and unread.any():
            at = int(unread.argmax())
            self._first = int(rows.file[at]), int(rows.row[at])

    def check(self) -> None:
        """Refuse a column of time of which most cannot be read.

        Raises
        ------
        DataError
            It shows the first such value, and what is read.
        """
        if self._first is None or self._unread <= _MOST * self._rows:
            return
        place = self._source.place(*self._first, self._source.time)
        orders = [spelt("dates", one) for one in ORDERS if one != self._options.dates]
        raise DataError(
            f"{place}: {self._unread:,} of {self._rows:,} times cannot be read; expected numbers, "
            f"or dates {self._options.dates}, such as {_SHOWN[self._options.dates]} 08:00:00.02. "
            f"Say another order with {' or '.join(orders)}, another column with {spelt('time')}, "
            f"or {spelt('time', 'none')} and {spelt('rate')} if rows follow one another evenly"
        )
