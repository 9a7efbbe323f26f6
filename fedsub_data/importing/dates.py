"""Times as text: dates as seconds since 1970, in SQL and in Python, and columns of neither."""

import re
from collections.abc import Iterable
from contextlib import suppress
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


#: A date whose year stands last: its first two numbers, and what parts them.
_YEAR_LAST = r"^\s*([0-9]{1,2})([./-])([0-9]{1,2})[./-][0-9]{4}"
#: The half of the day behind a time.
_NOON = r"\s*([AaPp])\.?[Mm]\.?\s*$"
_MOST_MONTHS, _HALF_DAY = 12, 43200
#: The form of times of a day, without a date, and such a time. A form with % that names a day.
OF_DAY = "time of day"
_OF_DAY = r"\s*[0-9]{1,2}:[0-9]{2}(:[0-9]{2}([.,][0-9]+)?)?\s*([AaPp]\.?[Mm]\.?)?\s*"
_DAYS = re.compile("%[-]?[djcxuUwWVDFs]")
_SECONDS_OF_DAY = 86400


def is_of_day(texts: Iterable[str | None], form: str) -> bool:
    """Return whether times of `form` are those of a day; without %, by most of some texts."""
    if "%" in form:
        return _DAYS.search(form) is None
    there = [text for text in texts if text is not None]
    return 2 * sum(re.fullmatch(_OF_DAY, text) is not None for text in there) > len(there)


def day_and_month_in_sql(column: str) -> str:
    """Return the largest first and second number of dates with the year last, and one of them."""
    numbers = (
        f"max(TRY_CAST(regexp_extract({column}, '{_YEAR_LAST}', {i}) AS INT))" for i in (1, 3)
    )
    shown = f"any_value({column}) FILTER (regexp_matches({column}, '{_YEAR_LAST}'))"
    return ", ".join((*numbers, shown))


def day_and_month(texts: Iterable[str]) -> tuple[int, int, str]:
    """Return the largest first and second number of such dates in memory, and one of them."""
    first, second, shown = 0, 0, ""
    for text in texts:
        if match := re.match(_YEAR_LAST, text):
            first, second = max(first, int(match[1])), max(second, int(match[3]))
            shown = shown or text
    return first, second, shown


def order_of(first: int, second: int, shown: str, where: str) -> tuple[str, str]:
    """Return the order of dates, of :data:`ORDERS`, and a sentence on the guess.

    Dates with points have the day first, as they are written so in all countries that use them.

    Parameters
    ----------
    first, second : the largest first and second number of dates whose year stands last.
    shown : one of them; "" where there is none.

    Raises DataError where no day is above 12, so that nothing shows which number is the day.
    """
    if not shown:
        return "year-first", ""
    if max(first, second) > _MOST_MONTHS >= min(first, second):
        order = "day-first" if first > _MOST_MONTHS else "month-first"
        return order, f"Guessed: {spelt('dates', order)}, as one number of dates is above 12."
    if "." in shown[:3] and second <= _MOST_MONTHS:
        return "day-first", f"Guessed: {spelt('dates', 'day-first')}, by the points of {shown!r}."
    both = f"{spelt('dates', 'day-first')} or {spelt('dates', 'month-first')}"
    why = (
        "dates in which either number is the day: none is above 12"
        if max(first, second) <= _MOST_MONTHS
        else "dates of which some have no month: both numbers are above 12"
    )
    raise DataError(f"{where}: got {why}, such as {shown!r}; expected to be told. Say {both}")


def date_in_sql(column: str, order: str) -> str:
    """Return a column of text as seconds since 1970; NULL where it is no date.

    `order`: of :data:`ORDERS`, :data:`OF_DAY`, or a form with ``%`` as ``strptime`` has it.
    """
    if "%" in order:
        form = order.replace("'", "''")
        read = f"epoch(CAST(try_strptime(trim({column}), '{form}') AS TIMESTAMPTZ))"
        day = _SECONDS_OF_DAY  # without a day, strptime takes one before 1970
        return f"(({read} % {day}) + {day}) % {day}" if is_of_day((), order) else read
    other = f"regexp_replace({column}, '{_NOON}', '')"
    for pattern, new in (ORDERS.get(order, ("", "")), *_ALSO):
        other = f"regexp_replace({other}, '{pattern}', '{new}')" if pattern else other
    read = f"coalesce(TRY_CAST({column} AS TIMESTAMPTZ), TRY_CAST({other} AS TIMESTAMPTZ))"
    if order == OF_DAY:
        read = f"TRY_CAST('1970-01-01 ' || trim({other}) AS TIMESTAMPTZ)"
    half = f"lower(regexp_extract({column}, '{_NOON}', 1))"
    noon = f"hour({read}) = 12"
    # 12 AM is midnight, 12 PM is noon.
    more = (
        f"CASE WHEN {half} = 'p' AND NOT {noon} THEN {_HALF_DAY} "
        f"WHEN {half} = 'a' AND {noon} THEN -{_HALF_DAY} ELSE 0 END"
    )
    return f"epoch(CASE WHEN year({read}) >= {_FIRST_YEAR} THEN {read} END) + {more}"


def date(text: str, order: str) -> float | None:
    """Return a date as seconds since 1970, UTC unless it names a zone; None where it is none.

    `order`: of :data:`ORDERS`, :data:`OF_DAY`, or a form with ``%``.
    """
    if "%" in order:
        with suppress(ValueError):
            read = datetime.strptime(text.strip(), order)
            if is_of_day((), order):
                return read.replace(tzinfo=UTC).timestamp() % _SECONDS_OF_DAY
            return (read if read.tzinfo else read.replace(tzinfo=UTC)).timestamp()
        return None
    half = re.search(_NOON, text)
    text = re.sub(_NOON, "", text)
    for pattern, new in (ORDERS.get(order, ("", "")), *_ALSO):
        text = re.sub(pattern, new, text) if pattern else text
    if order == OF_DAY:
        text = f"1970-01-01 {text.strip()}"
    # 2025-5-9
    text = re.sub(r"(?<=[-T ])([0-9])(?=[-T :]|$)", r"0\1", text)
    try:
        read = datetime.fromisoformat(text)
    except ValueError:
        return None
    if read.year < _FIRST_YEAR:
        return None
    seconds = (read if read.tzinfo else read.replace(tzinfo=UTC)).timestamp()
    if half is not None and (half[1] in "pP") is (read.hour != 12):
        seconds += _HALF_DAY if half[1] in "pP" else -_HALF_DAY
    return seconds


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

        Raises DataError; it shows the first such value, and what is read.
        """
        if self._first is None or self._unread <= _MOST * self._rows:
            return
        place = self._source.place(*self._first, self._source.time)
        order = self._options.dates if self._options.dates in ORDERS else "year-first"
        orders = [spelt("dates", other) for other in ORDERS if other != order]
        raise DataError(
            f"{place}: {self._unread:,} of {self._rows:,} times cannot be read; expected numbers, "
            f"or dates {order}, such as {_SHOWN[order]} 08:00:00.02. Say another order with "
            f"{' or '.join(orders)}, their form with {spelt('time-format')}, another column "
            f"with {spelt('time')}, or {spelt('time', 'none')} and {spelt('rate')} if "
            "rows follow one another evenly"
        )
