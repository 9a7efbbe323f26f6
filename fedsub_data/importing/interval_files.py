"""Files of intervals: classes by start and end, by start and duration, or by marks.

A mark with a class lasts up to the next mark. Bare marks get their classes from an option.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from fedsub_core.errors import DataError, cut
from fedsub_core.spelling import spelt
from fedsub_data.importing.dates import date, day_and_month, order_of
from fedsub_data.importing.devices import words
from fedsub_data.importing.interval_tables import (
    CLOCK,
    IntervalTable,
    kind_of_time,
    read_interval_table,
)
from fedsub_data.importing.local_times import local_seconds
from fedsub_data.importing.options import AUTO, ImportOptions
from fedsub_data.importing.roles import EMPTY, LABELS, SUBJECTS, TIMES, is_number, plain
from fedsub_data.importing.time_unit import LONGER, SECONDS, unit_of_name, unit_since_1970
from fedsub_data.importing.zones import NAMED

#: Words of columns' names, by what they hold.
_START = {"start", "starts", "begin", "begins", "beginning", "onset", "from", "beginn", "von"}
_END = {"end", "ends", "stop", "stops", "offset", "to", "until", "finish", "ende", "bis"}
_LENGTH = {"duration", "length", "dauer"}
_CLASSES = (*LABELS, "annotation", "event", "text", "name", "type", "tag", "description", "value")
_RECORDINGS = ("recording", "recordingid", "file", "filename", "session", "sessionid", "trial")


@dataclass(frozen=True)
class Interval:
    """An interval of one class.

    Parameters
    ----------
    start, end : in the unit of its file; a mark's end is infinite.
    label : the class; "" of a bare mark.
    person, recording : whose it is; "" where the file does not say it.
    """

    start: float
    end: float
    label: str
    where: str
    person: str = ""
    recording: str = ""


@dataclass(frozen=True)
class IntervalFile:
    """The intervals of one file, in its order.

    Parameters
    ----------
    unit : of their times, s; None where neither option, name nor size shows it.
    dated : whether times count from 1970.
    bare : whether they are marks without classes.
    """

    path: Path
    intervals: tuple[Interval, ...]
    unit: float | None
    dated: bool
    bare: bool = False


def read_intervals(path: Path, options: ImportOptions) -> IntervalFile:
    """Return the intervals of a file.

    Raises DataError where it has another form, or an interval ends before it starts; it names the
    line.
    """
    table = read_interval_table(path, options)
    if not table.where:
        return IntervalFile(path, (), 1.0, True, not table.columns)
    names, taken = list(table.columns), set[str | None]()

    def column_of(known: Sequence[str] | set[str]) -> str | None:
        left = [name for name in names if name not in taken]
        if isinstance(known, set):
            # How long a button was pressed is no length of an interval.
            held = ((name, {*words(name)}) for name in left)
            name = next((n for n, own in held if own & known and "press" not in own), None)
        else:
            plains = {plain(name): name for name in reversed(left)}
            name = next((plains[word] for word in known if word in plains), None)
        taken.add(name)
        return name

    start, end, length = column_of(_START), column_of(_END), column_of(_LENGTH)
    start = start or column_of(TIMES)
    person, recording, label = column_of(SUBJECTS), column_of(_RECORDINGS), column_of(_CLASSES)
    if start is None or (label is None and (end or length or len(names) > 1)):
        raise DataError(
            f"{path}: got columns {', '.join(names)}, expected start, end (or duration) and label"
        )
    begins, unit, dated = _times(path, table, start, options)
    ends = np.full(len(begins), np.inf)
    if end is not None:
        ends, other, also = _times(path, table, end, options, may_lack=True)
        if np.isfinite(ends).any() and (other, also) != (unit, dated):
            raise DataError(f"{path}: got {start!r} and {end!r} in two units, expected one")
    elif length is not None:
        lasts, other, _ = _times(path, table, length, replace(options, intervals_unit=AUTO), True)
        if other and not unit:
            raise DataError(
                f"{path}: got {length!r} with a unit and {start!r} without, expected both. Say it "
                f"with {spelt('intervals-unit')}"
            )
        ends = begins + lasts * (other / unit if other and unit else 1.0)
    none = [""] * len(begins)
    texts = (table.columns[name] if name else none for name in (label, person, recording))
    made = tuple(
        Interval(float(a), float(b), what, where, who, file)
        for a, b, where, what, who, file in zip(begins, ends, table.where, *texts, strict=True)
    )
    for each in made:
        if each.end <= each.start:
            raise DataError(
                f"{each.where}: got {each.label!r} from {each.start:.15g} to {each.end:.15g}, "
                "expected an end behind its start. Correct it, or remove it"
            )
    return IntervalFile(path, made, unit, dated, label is None)


def _times(
    path: Path, table: IntervalTable, column: str, options: ImportOptions, may_lack: bool = False
) -> tuple[NDArray[np.float64], float | None, bool]:
    """Return a column's times, infinite where one lacks; their unit; whether they are dates."""
    cells = table.columns[column]
    kinds = [kind_of_time(cell) for cell in cells]
    kind = next((each for each in kinds if each), "number")
    for cell, own, where in zip(cells, kinds, table.where, strict=True):
        if own != kind and not (may_lack and cell.lower() in EMPTY):
            raise DataError(
                f"{where}, column {column!r}: got {cut(cell)!r}, expected a {kind}, as a start or "
                "end of an interval"
            )
    if kind == "number":
        found = [float(c.replace(",", ".")) if is_number(c) else np.inf for c in cells]
        values = np.array(found, np.float64)
        middle = float(np.median(values[np.isfinite(values)])) if may_lack else np.median(values)
        unit: str | None = options.intervals_unit
        if unit == AUTO:
            unit = unit_since_1970(float(middle)) or unit_of_name(column)
        length = (SECONDS | LONGER)[unit] if unit else None
        return values, length, bool(length and unit_since_1970(float(middle) * length) == "s")
    if kind == "time of day":
        return np.array([_seconds(cell) for cell in cells]), 1.0, False
    form = options.date_form
    if form == AUTO:
        form, _ = order_of(*day_and_month(cells), f"{path}, column {column!r}")
    read = [date(cell, form) if own else np.inf for cell, own in zip(cells, kinds, strict=True)]
    if None in read:
        at = read.index(None)
        raise DataError(
            f"{table.where[at]}, column {column!r}: got {cut(cells[at])!r}, expected a date. Say "
            f"its form with {spelt('dates')} or {spelt('time-format')}"
        )
    by_form = "%z" in form if "%" in form else None
    named = [by_form if by_form is not None else bool(re.search(NAMED, cell)) for cell in cells]
    seconds = np.array(read, np.float64)
    places = table.where
    return local_seconds(seconds, np.array(named), options, lambda row: places[row]), 1.0, True


def _seconds(text: str) -> float:
    """Return the seconds of a time such as 00:01:02.5; infinite for none."""
    match = CLOCK.fullmatch(text)
    if match is None:
        return np.inf
    hours, minutes, rest = match.groups()
    return 3600.0 * int(hours) + 60.0 * int(minutes) + float(rest.replace(",", "."))
