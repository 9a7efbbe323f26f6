"""The unit of times in numbers: a given one, else by the rate, by size, by name, by steps."""

import re
from collections.abc import Mapping

import numpy as np

from fedsub_core.errors import DataError
from fedsub_core.spelling import spelt
from fedsub_data.importing.clocks import Clock
from fedsub_data.importing.options import AUTO, ImportOptions

SECONDS = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}
#: Units in which recordings are not read, s; and how near to one steps must be, relatively.
LONGER = {"minutes": 60.0, "hours": 3600.0, "days": 86400.0}
_EXACT = 0.03
#: Last words of a column's name, by the unit that they mean.
_NAMES = {
    "ms": "ms", "us": "us", "ns": "ns", "s": "s|sec|seconds?", "minutes": "mins?|minutes?",
    "hours": "h|hrs?|hours?", "days": "days?",
}  # fmt: skip
#: Times since 1970 that recordings have, s: from 1990 to 2060. Others count from a device's start.
_SINCE_1970 = (6.3e8, 2.84e9)
#: Samples a second that a signal has; others must be said.
_RATES = (0.1, 1e4)
#: Up to this factor, a rate is the one that is given; from this one on, no way it is.
_AS_GIVEN, _FAR = 2.0, 100.0
_STEPS = "by its steps perhaps"


def tick_seconds(
    clocks: Mapping[str, Clock],
    column: str,
    ticks: bool,
    options: ImportOptions,
    between: float | None = None,
    signal: bool = True,
) -> tuple[float, str]:
    """Return the length of one tick of time, s, and a sentence on the guess.

    Parameters
    ----------
    column : of time; ``ticks`` says whether it holds numbers.
    between : about how long it is from one row to the next, s, where that is known.
    signal : whether rows are points of a signal; samples and windows may be any time apart.

    Raises DataError where the unit that shows contradicts the rate that is given, or is longer than
    seconds.
    """
    if not ticks:
        return 1.0, ""
    if options.time_unit != AUTO:
        return SECONDS[options.time_unit], ""
    shown, why = _shown(clocks, column)
    if shown in LONGER and signal:
        raise _unread(column, f"{why} {shown}")
    shown = None if shown in LONGER else shown
    steps = [clock.per_row for clock in clocks.values() if clock.per_row is not None]
    if not steps:
        return SECONDS[shown or "s"], f"Guessed: {spelt('time-unit', shown or 's')}."
    step = float(np.median(steps))
    if shown is None:
        shown, why = (_by_steps(step), _STEPS) if signal else ("s", "")
    unit = shown
    if between is not None and (signal or not why):
        off = {clock: abs(np.log(step * length / between)) for clock, length in SECONDS.items()}
        unit, other = sorted(off, key=off.__getitem__)[:2]
        if why == _STEPS:  # which show little: where two units are as far off, no one is meant
            shown = other if off[other] < np.log(_FAR) or step == 1 else unit
    guess = f"Guessed: {spelt('time-unit', unit)}"
    if between is None and step == 1 and why == _STEPS:
        guess += f". If column {column!r} numbers the rows, give {_by_rate()}"
    if not signal or between is None:
        return SECONDS[unit], f"{guess}."
    rate = f"{spelt('rate', f'{1 / between:g}')}"
    for longer, length in LONGER.items():
        if abs(step * length / between - 1) < _EXACT:
            raise _unread(column, f"steps of {step:.4g}, at {rate} {longer}")
    if unit == shown:
        return SECONDS[unit], f"{guess}."
    reading = f"{why} {shown}, which is {1 / (step * SECONDS[shown]):.4g} a second"
    if 1 / _AS_GIVEN <= step * SECONDS[unit] / between <= _AS_GIVEN:
        return SECONDS[unit], f"{guess}, as {rate} is given; {reading}."
    raise DataError(
        f"column {column!r}: got steps of {step:.6g}, {reading}, and {rate}; expected one reading. "
        f"Say the unit with {spelt('time-unit')}, or another {spelt('rate')}; or "
        f"{spelt('time', 'none')}, if it numbers the rows"
    )


def _by_rate() -> str:
    """Return the options with which rows follow one another evenly."""
    return f"{spelt('time', 'none')} and {spelt('rate')}"


def _unread(column: str, got: str) -> DataError:
    """Return the error for a time in minutes, hours or days."""
    return DataError(
        f"column {column!r}: got {got}, expected {', '.join(SECONDS)} or dates. Write it in "
        f"seconds; or give {_by_rate()} if rows follow one another "
        f"evenly, or the unit with {spelt('time-unit')} if it is another"
    )


def check_rate(rate: float, tick: float, column: str, ticks: bool) -> None:
    """Refuse a guessed rate, samples a second, that no signal has.

    Parameters
    ----------
    tick : the unit of time with which it was guessed, s.
    column : of time; ``ticks`` says whether it holds numbers.

    Raises DataError; it names the unit, the rate in each unit with which a signal could have it,
    and the options.
    """
    least, most = _RATES
    if least <= rate <= most:
        return
    unit = next(name for name, length in SECONDS.items() if length == tick)
    others = {name: rate * tick / length for name, length in SECONDS.items() if name != unit}
    ways = [
        f"{other:.4g} a second with {spelt('time-unit', name)}"
        for name, other in others.items()
        if ticks and least <= other <= most
    ]
    read = f"read as {unit}" if ticks else "read as dates"
    raise DataError(
        f"column {column!r}, {read}: got {rate:.4g} samples a second, expected {least:g} to "
        f"{most:,.0f}. {'It would be ' + ', or '.join(ways) + '. ' if ways else ''}If {rate:.4g} "
        f"is right, say {spelt('rate', f'{rate:.6g}')}; if rows are no signal, "
        f"{spelt('window', 'none')}"
    )


def _shown(clocks: Mapping[str, Clock], column: str) -> tuple[str | None, str]:
    """Return the unit that size or name shows, and a clause on which of the two."""
    if unit := unit_since_1970(float(np.median([clock.start for clock in clocks.values()]))):
        return unit, "by the size of its numbers, since 1970,"
    unit = unit_of_name(column)
    return unit, "by its name" if unit else ""


def unit_since_1970(start: float) -> str | None:
    """Return the unit with which a time counts from 1970; None where none does."""
    least, most = _SINCE_1970
    return next((u for u, length in SECONDS.items() if least <= start * length <= most), None)


def unit_of_name(column: str) -> str | None:
    """Return the unit that a column's name ends in, such as minutes; None where it names none."""
    ends = (
        unit
        for unit, words in _NAMES.items()
        if re.search(rf"(?:^|[^a-z])(?:{words})\W*$", column.lower())
    )
    return next(ends, None)


def _by_steps(step: float) -> str:
    """Return the unit with which a signal has from one to some thousand samples a second."""
    return "s" if step < 1 or step == 1 else "ms" if step < 1e3 else "us" if step < 1e6 else "ns"
