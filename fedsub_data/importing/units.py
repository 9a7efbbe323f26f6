"""What each person's rows are like, and people whose numbers are in another unit."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedsub_core.errors import DataError
from fedsub_data.importing.options import ImportOptions
from fedsub_data.importing.source import Rows

#: By how much a number grows in the other unit: g and m/s^2, radians and degrees, thousands.
_FACTORS = {
    9.80665: "g and m/s^2",
    180 / np.pi: "radians and degrees",
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
    size : float64 [F], mean size of each feature's numbers.
    repeats : rows of each time, on average.
    """

    step: float | None
    start: float
    size: NDArray[np.float64]
    repeats: float = 1.0

    @property
    def per_row(self) -> float | None:
        """Ticks from one row to the next, where rows of one time lie evenly up to the next."""
        return None if self.step is None else self.step / self.repeats


def survey(rows: Rows, sort: bool = False) -> Survey:
    """Return what a person's rows are like; values that are none are passed over.

    Parameters
    ----------
    sort : whether the rows of a file are put in order of time first.
    """
    flat = rows.x if rows.x.ndim == 2 else rows.x.transpose(0, 2, 1).reshape(-1, rows.x.shape[1])
    good = np.isfinite(flat)
    # A column at a time: a copy of all in float64 would be the most that an import holds.
    size = np.array([_mean_size(flat[:, i], good[:, i]) for i in range(flat.shape[1])])
    if rows.t is None:
        return Survey(None, 0.0, size)
    there = np.isfinite(rows.t)
    t, file = rows.t[there], rows.file[there]
    if sort:
        t = t[np.lexsort((t, file))]
    steps = np.diff(t)[np.diff(file) == 0]
    forward = steps[steps > 0]
    if not len(forward):
        return Survey(None, float(t[0]) if len(t) else 0.0, size)
    repeats = len(t) / (len(t) - np.count_nonzero(steps == 0))
    return Survey(float(np.median(forward)), float(t[0]), size, repeats)


def _mean_size(x: NDArray[np.float32], good: NDArray[np.bool_]) -> float:
    return float(np.abs(x[good]).mean(dtype=np.float64)) if good.any() else 0.0


def check_units(
    surveys: Mapping[str, Survey], features: tuple[str, ...], options: ImportOptions
) -> None:
    """Refuse people whose numbers, or steps in time, are all larger by the factor of a unit.

    Raises
    ------
    DataError
        It names the person, and both sizes.
    """
    if options.mixed_units == "keep" or len(surveys) < _FEWEST:
        return
    people = list(surveys)
    steps = np.array([surveys[p].step or np.nan for p in people])[:, None]
    thousands = {f: said for f, said in _FACTORS.items() if f >= 1e3}
    sizes = np.stack([surveys[p].size for p in people])
    for values, factors, what, named in (
        (steps, thousands, "steps in time", ("time",)),
        (sizes, _FACTORS, "values", features),
    ):
        found = _strangers(values, factors)
        for at, (ratio, factor) in found.items():
            others = np.nanmedian(values, axis=0)
            column = int(np.nanargmax(others))
            raise DataError(
                f"person {people[at]!r}, column {named[column]!r}: got {what} of "
                f"{values[at, column]:.4g} on average, the median person has "
                f"{others[column]:.4g}: {ratio:.3g} times as much, as with {factors[factor]}; "
                f"expected one unit in a federation ({len(found)} of {len(people)} people differ "
                "so). Convert them, or let them pass with --mixed-units keep"
            )


def _strangers(
    values: NDArray[np.float64], factors: Mapping[float, str]
) -> dict[int, tuple[float, float]]:
    """Return rows that differ from the median one by a factor in all columns, and by which."""
    if np.isnan(values).all(axis=0).any():
        return {}
    middle = np.nanmedian(values, axis=0)
    usable = middle > 0
    if not usable.any():
        return {}
    with np.errstate(divide="ignore"):
        logs = np.log(values[:, usable] / middle[usable])
    each = np.median(logs, axis=1)
    found = {}
    for at, log in enumerate(each):
        for factor in factors:
            near = abs(abs(log) - np.log(factor)) < np.log(_NEAR)
            # All columns are larger, or all smaller, and clearly so.
            if near and (np.sign(log) * logs[at] > np.log(factor) / 2).all():
                found[at] = float(np.exp(log)), factor
                break
    rest = np.delete(each, list(found))
    rest = rest[np.isfinite(rest)]
    alike = len(rest) and np.mean(np.abs(rest) < np.log(_ALIKE)) > 0.8
    return found if alike and len(found) < len(values) / 2 else {}
