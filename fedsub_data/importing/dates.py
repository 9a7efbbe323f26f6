"""Dates as text, of which the year stands first: in SQL and in Python."""

from __future__ import annotations

import re
from datetime import UTC, datetime

#: What is written otherwise, and nothing else can be meant: a decimal comma, a blank before the
#: zone. Pairs of a regular expression and what replaces it.
_ALSO = ((r"(:[0-9]{2}),([0-9])", r"\1.\2"), (r" ([+-][0-9]{2}):?([0-9]{2})$", r"\1:\2"))
#: Earlier years are days, or years of two digits.
_FIRST_YEAR = 1000


def date_in_sql(column: str) -> str:
    """Return a column of text as seconds since 1970; NULL where it is no date."""
    other = column
    for pattern, new in _ALSO:
        other = f"regexp_replace({other}, '{pattern}', '{new}')"
    read = f"coalesce(TRY_CAST({column} AS TIMESTAMPTZ), TRY_CAST({other} AS TIMESTAMPTZ))"
    return f"epoch(CASE WHEN year({read}) >= {_FIRST_YEAR} THEN {read} END)"


def date(text: str) -> float | None:
    """Return a date as seconds since 1970, UTC unless it names a zone; None where it is none."""
    for pattern, new in _ALSO:
        text = re.sub(pattern, new, text)
    try:
        read = datetime.fromisoformat(text)
    except ValueError:
        return None
    if read.year < _FIRST_YEAR:
        return None
    return (read if read.tzinfo else read.replace(tzinfo=UTC)).timestamp()
