"""Times as text: dates as seconds since 1970, in SQL and in Python, and columns of neither."""

from __future__ import annotations

import re
from datetime import UTC, datetime

import numpy as np

from fedsub_core.errors import DataError
from fedsub_core.spelling import spelt
from fedsub_data.importing.options import ImportOptions
from fedsub_data.importing.source import Rows, Source

#: How the day of a date is written, and the same with the year first, by what stands first.
ORDERS = {
    "year-first": ("", ""),
    "day-first": (r"^([0-9]{1,2})[./-]([0-9]{1,2})[./-]([0-9]{4})", r"\3-\2-\1"),
    "month-first": (r"^([0-9]{1,2})[./-]([0-9]{1,2})[./-]([0-9]{4})", r"\3-\1-\2"),
}
#: What can be meant in one way alone: a decimal comma, a blank before the zone.
_ALSO = ((r"(:[0-9]{2}),([0-9])", r"\1.\2"), (r" ([+-][0-9]{2}):?([0-9]{2})$", r"\1:\2"))
#: Earlier years are days, or years of two digits.
_FIRST_YEAR = 1000


def date_in_sql(column: str, order: str) -> str:
    """Return a column of text as seconds since 1970; NULL where it is no date.

    Parameters
    ----------
    order : of :data:`ORDERS`.
    """
    other = column
    for pattern, new in (ORDERS[order], *_ALSO):
        other = f"regexp_replace({other}, '{pattern}', '{new}')" if pattern else other
    read = f"coalesce(TRY_CAST({column} AS TIMESTAMPTZ), TRY_CAST({other} AS TIMESTAMPTZ))"
    return f"epoch(CASE WHEN year({read}) >= {_FIRST_YEAR} THEN {read} END)"


def date(text: str, order: str) -> float | None:
    """Return a date as seconds since 1970, UTC unless it names a zone; None where it is none.

    Parameters
    ----------
    order : of :data:`ORDERS`.
    """
    for pattern, new in (ORDERS[order], *_ALSO):
        text = re.sub(pattern, new, text) if pattern else text
    # 2025-5-9
    text = re.sub(r"(?<=-)([0-9])(?=[-T ]|$)", r"0\1", text)
    try:
        read = datetime.fromisoformat(text)
    except ValueError:
        return None
    if read.year < _FIRST_YEAR:
        return None
    return (read if read.tzinfo else read.replace(tzinfo=UTC)).timestamp()


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
        orders = [spelt("dates", order) for order in ORDERS if order != self._options.dates]
        raise DataError(
            f"{place}: {self._unread:,} of {self._rows:,} times cannot be read; expected numbers, "
            f"or dates {self._options.dates}, such as {_SHOWN[self._options.dates]} 08:00:00.02. "
            f"Say another order with {' or '.join(orders)}, another column with {spelt('time')}, "
            f"or {spelt('time', 'none')} and {spelt('rate')} if rows follow one another evenly"
        )
