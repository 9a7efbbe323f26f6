"""Tuned values that lie at an end of their grid: a wider one might hold better ones."""

from __future__ import annotations

from collections.abc import Sequence

from fedsub.studies.study import Study, Values
from fedsub.studies.study_results import Run


def at_end(study: Study, key: str, value: object) -> bool:
    """Return whether a tuned value is the least or the greatest of several numbers."""
    grid = [one for one in study.tune[key] if isinstance(one, int | float)]
    numbers = len(grid) == len(study.tune[key]) > 1 and not any(type(one) is bool for one in grid)
    return numbers and value in (min(grid), max(grid))


def tuned(study: Study, key: str, values: Values) -> str:
    """Return a row's tuned value as a table's cell."""
    if key not in values:
        return "-"
    return f"{values[key]}{' (end of the grid)' * at_end(study, key, values[key])}"


def ends_in_words(study: Study, runs: Sequence[Run]) -> list[str]:
    """Return a sentence on tuned values at an end of their grid; [] without any."""
    ends = dict.fromkeys(
        f"{run.task.entry.label} {key} = {value}"
        for run in runs
        for key, value in run.task.tuned.items()
        if key in study.tune and at_end(study, key, value)
    )
    if not ends:
        return []
    return [f"At an end of the grid, where a wider one might give more: {', '.join(ends)}."]
