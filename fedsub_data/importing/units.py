"""Units of time, as steps and names show them; and people whose times are in another one."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from fedsub_core.errors import DataError
from fedsub_data.importing.options import AUTO, ImportOptions
from fedsub_data.importing.source import Rows

SECONDS = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}
#: Ticks since 1970 by which unit they are: from 1973 to 2286.
_SINCE_1970 = ((1e17, "ns"), (1e14, "us"), (1e11, "ms"), (1e8, "s"))
#: By how much a number grows in the other unit.
_FACTORS = {
    1e3: "a unit and its thousandth",
    1e6: "a unit and its millionth",
}
#: How far from a factor a person may be, and how near to the others these must be.
_NEAR, _ALIKE = 1.4, 3.0
#: Fewer people show nothing.
_FEWEST = 3


@dataclass(frozen=True)
class Survey:
    """What one person's rows are like.

    Parameters
    ----------
    step : median of the steps in time that go forward, ticks; None where there are none.
    start : first time, ticks.
    """

    step: float | None
    start: float


def survey(rows: Rows) -> Survey:
    """Return what a person's rows are like; times that are none are passed over."""
    if rows.t is None:
        return Survey(None, 0.0)
    t = rows.t[np.isfinite(rows.t)]
    steps = np.diff(t)
    forward = steps[(steps > 0) & (np.diff(rows.file[np.isfinite(rows.t)]) == 0)]
    step = float(np.median(forward)) if len(forward) else None
    return Survey(step, float(t[0]) if len(t) else 0.0)


def tick_seconds(
    surveys: Mapping[str, Survey],
    column: str,
    ticks: bool,
    options: ImportOptions,
    between: float | None = None,
    signal: bool = True,
) -> tuple[float, str]:
    """Return how long one tick of time is, s, and what was guessed, in a sentence.

    Parameters
    ----------
    column : of time; ``ticks`` says whether it holds numbers.
    between : about how long it is from one row to the next, s, where that is known.
    signal : whether rows are points of a signal; samples and windows may be any time apart.
    """
    if not ticks:
        return 1.0, ""
    if options.time_unit != AUTO:
        return SECONDS[options.time_unit], ""
    unit = _unit(surveys, column, between, signal)
    return SECONDS[unit], f"Guessed: --time-unit {unit}."


def _unit(surveys: Mapping[str, Survey], column: str, between: float | None, signal: bool) -> str:
    start = float(np.median([one.start for one in surveys.values()]))
    for least, unit in _SINCE_1970:
        if start >= least:
            return unit
    if said := re.search(r"(?:^|[^a-z])(ms|us|ns|s|sec|seconds?)$", column.lower()):
        return said[1] if said[1] in SECONDS else "s"
    steps = [one.step for one in surveys.values() if one.step is not None]
    if not steps:
        return "s"
    step = float(np.median(steps))
    if between:
        return min(SECONDS, key=lambda unit: abs(np.log(step * SECONDS[unit] / between)))
    if not signal:
        return "s"
    # A signal has from one to some thousand samples a second.
    return "s" if step < 1 or step == 1 else "ms" if step < 1e3 else "us" if step < 1e6 else "ns"


def check_units(surveys: Mapping[str, Survey], options: ImportOptions) -> None:
    """Refuse people whose steps in time are larger by the factor of a unit.

    Raises
    ------
    DataError
        It names the person, and both steps.
    """
    if options.mixed_units == "keep" or len(surveys) < _FEWEST:
        return
    people = list(surveys)
    steps = np.array([surveys[p].step or np.nan for p in people])
    if np.isnan(steps).all():
        return
    middle = float(np.nanmedian(steps))
    logs = np.log(steps / middle)
    found = {
        at: factor
        for at, log in enumerate(logs)
        for factor in _FACTORS
        if abs(abs(log) - np.log(factor)) < np.log(_NEAR)
    }
    rest = np.delete(logs, list(found))
    rest = rest[np.isfinite(rest)]
    alike = len(rest) and np.mean(np.abs(rest) < np.log(_ALIKE)) > 0.8
    if not found or not alike or len(found) >= len(people) / 2:
        return
    at, factor = next(iter(found.items()))
    raise DataError(
        f"person {people[at]!r}, column 'time': got steps in time of {steps[at]:.4g} on average, "
        f"the median person has {middle:.4g}: {steps[at] / middle:.3g} times as much, as with "
        f"{_FACTORS[factor]}; expected one unit in a federation ({len(found)} of {len(people)} "
        "people differ so). Convert them, or let them pass with --mixed-units keep"
    )
