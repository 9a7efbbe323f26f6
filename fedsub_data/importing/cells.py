"""Cells of a column in memory as what an import reads: text, numbers, times."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedsub_core.errors import DataError
from fedsub_data.importing.dates import OF_DAY, date, day_and_month, is_of_day, order_of
from fedsub_data.importing.options import AUTO
from fedsub_data.importing.roles import EMPTY
from fedsub_data.importing.zones import NAMED

#: Texts of a cell without a value, in small letters.
_EMPTY = EMPTY | {"nat", "<na>"}


def texts(
    column: NDArray[Any], where: str = "", name: str = "", words: bool = False
) -> NDArray[Any]:
    """Return a column as objects [n] of text, None where there is no value.

    With `words`, words for no value, such as "none", stay words.

    Raises DataError if `where` is given and the column mixes numbers and words: 1 and "1" might be
    two.
    """
    plain = np.asarray(column)
    if plain.dtype.kind in "iub":
        return plain.astype(str).astype(object)
    made = np.empty(len(plain), object)
    kinds: dict[bool, int] = {}
    for row, value in enumerate(plain.tolist()):
        text = None if value is None else str(value)
        if text is None or text.strip().lower() in _EMPTY:
            made[row] = text if words and isinstance(value, str) else None
            continue
        made[row] = text
        kinds.setdefault(isinstance(value, str), row)
    if where and len(kinds) == 2:
        word, number = kinds[True], kinds[False]
        raise DataError(
            f"{where}: column {name!r}: got a column of mixed types, {plain[number]!r} of "
            f"{type(plain[number]).__name__} in row {number + 1} and {plain[word]!r} of text in "
            f"row {word + 1}; expected one. Make it text with .astype(str)"
        )
    return made


def numbers(column: NDArray[Any]) -> NDArray[np.float32]:
    """Return a column as float32 [n]: NaN where there is no value, infinite where it is text."""
    plain = np.asarray(column)
    if plain.dtype.kind in "fiub":
        return plain.astype(np.float32)
    return np.array([_number(value) for value in plain.tolist()], np.float32)


def _number(value: object) -> float:
    if value is None or (isinstance(value, str) and value.strip().lower() in _EMPTY):
        return np.nan
    try:
        return float(value)  # type: ignore[arg-type]  # whatever stands in a column
    except (TypeError, ValueError):
        return np.inf


@dataclass(frozen=True, eq=False)
class Times:
    """A column of time.

    Parameters
    ----------
    t : float64 [n]; dates are seconds since 1970, as if in UTC where they name no zone.
    named : bool [n], which dates name their zone; None: times are numbers of an unknown unit.
    of_day : whether times are those of a day, without a date.
    """

    t: NDArray[np.float64]
    named: NDArray[np.bool_] | None
    of_day: bool = False

    def at(self, rows: NDArray[np.int64]) -> Times:
        """Return the times of some rows, by their indices."""
        return replace(self, t=self.t[rows], named=None if self.named is None else self.named[rows])


def times(column: NDArray[Any], dates: str) -> Times:
    """Return the times in a column of a table in memory.

    `dates`: what stands first in dates as text, ``auto``, or a form with ``%``.
    """
    plain = np.asarray(column)
    if plain.dtype.kind in "mM":
        seconds = plain.astype(f"{plain.dtype.kind}8[ns]").astype(np.int64) / 1e9
        return Times(np.where(np.isnat(plain), np.nan, seconds), np.zeros(len(plain), np.bool_))
    if plain.dtype.kind in "fiu" and "%" not in dates:
        return Times(plain.astype(np.float64), None)
    cells = plain.tolist()
    read = np.array([_number(value) for value in cells], np.float64)
    read = np.where(np.isfinite(read), read, np.nan)
    # Most of them: a row of units may come first.
    if "%" not in dates and 2 * np.count_nonzero(np.isfinite(read)) >= sum(
        v is not None for v in cells
    ):
        return Times(read, None)
    words = list(map(str, cells))
    of_day = is_of_day(words, dates)
    form = OF_DAY if of_day and "%" not in dates else dates
    if form == AUTO:
        form, _ = order_of(*day_and_month(words), "times")
    by_form = "%z" in form if "%" in form else None
    named = [by_form if by_form is not None else re.search(NAMED, v) is not None for v in words]
    seconds = np.array([date(v, form) for v in words], np.float64)
    return Times(seconds, np.array(named, np.bool_), of_day)
