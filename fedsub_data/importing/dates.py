"""Dates as text, as seconds since 1970: in SQL and in Python."""

from __future__ import annotations

import re
from datetime import UTC, datetime

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
