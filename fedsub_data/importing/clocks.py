"""Clocks of people: the steps of their times, and whose clock counts in another unit."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from fedsub_core.errors import DataError
from fedsub_core.spelling import spelt
from fedsub_data.importing.options import ImportOptions
from fedsub_data.importing.source import Rows

#: By how much a number grows in the other unit.
THOUSANDS = {1e3: "a unit and its thousandth", 1e6: "a unit and its millionth"}
#: How far from a factor a person may be, and how near to the others these must be.
_NEAR, _ALIKE = 1.4, 3.0
#: Fewer people show nothing.
_FEWEST = 3


@dataclass(frozen=True)
class Clock:
    """The clock of one person's rows.

    Parameters
    ----------
    step : median of the steps in time that go forward, ticks; None where there are none.
    start : first time, ticks.
    repeats : rows of each time, on average.
    """

    step: float | None
    start: float
    repeats: float = 1.0

    @property
    def per_row(self) -> float | None:
        """Ticks from one row to the next, where rows of one time lie evenly up to the next."""
        return None if self.step is None else self.step / self.repeats


def clock_of(rows: Rows, sort: bool = False) -> Clock:
    """Return the clock of a person's rows; times that are none are passed over.

    `sort`: whether the rows of a file are put in order of time first.
    """
    if rows.t is None:
        return Clock(None, 0.0)
    there = np.isfinite(rows.t)
    t, file = rows.t[there], rows.file[there]
    if sort:
        t = t[np.lexsort((t, file))]
    steps = np.diff(t)[np.diff(file) == 0]
    forward = steps[steps > 0]
    if not len(forward):
        return Clock(None, float(t[0]) if len(t) else 0.0)
    repeats = len(t) / (len(t) - np.count_nonzero(steps == 0))
    return Clock(float(np.median(forward)), float(t[0]), repeats)


def check_clocks(
    clocks: Mapping[str, Clock], options: ImportOptions, column: str | None = "time"
) -> None:
    """Refuse people whose steps in time are larger by the factor of a unit.

    `column`: of time, for messages.

    Raises DataError; it names the person, and both steps.
    """
    if options.mixed_units == "keep" or len(clocks) < _FEWEST:
        return
    people = list(clocks)
    steps = np.array([clocks[p].step or np.nan for p in people])
    if np.isnan(steps).all():
        return
    middle = float(np.nanmedian(steps))
    logs = np.log(steps / middle)
    differing = {
        at: factor
        for at, log in enumerate(logs)
        for factor in THOUSANDS
        if abs(abs(log) - np.log(factor)) < np.log(_NEAR)
    }
    rest = np.delete(logs, list(differing))
    rest = rest[np.isfinite(rest)]
    alike = len(rest) and np.mean(np.abs(rest) < np.log(_ALIKE)) > 0.8
    if not differing or not alike or len(differing) >= len(people) / 2:
        return
    at, factor = next(iter(differing.items()))
    raise DataError(
        f"person {people[at]!r}, column {column!r}: got steps in time of {steps[at]:.4g} on "
        f"average, the median person has {middle:.4g}: {steps[at] / middle:.3g} times as much, as "
        f"with {THOUSANDS[factor]}; expected one unit in a federation ({len(differing)} of "
        f"{len(people)} people differ so). Convert them, or let them pass with "
        f"{spelt('mixed-units', 'keep')}"
    )
