"""Values of a run that were chosen on validation data before it began, ``tuned.json``."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fedsub_core.files import read_table
from fedsub_server.task_scores import CLASSES, TARGET

TUNED_FILE = "tuned.json"


def read_tuned(folder: Path) -> dict[str, Any]:
    """Return the values that were tried and chosen for a run; empty where there are none."""
    return read_table(folder / TUNED_FILE)


def tuned_in_words(folder: Path) -> str:
    """Return sentences on the values that were chosen for a run; "" where none were."""
    found = read_tuned(folder)
    try:
        chosen, grid, method = found["chosen"], found["grid"], found["method"]
        each = [f"{k} = {v} (of {', '.join(map(str, grid[k]))})" for k, v in chosen.items()]
        (best,) = (one for one in found["tried"] if one["values"] == chosen)
    except (KeyError, TypeError, ValueError):
        return ""
    scores = [of for of in (CLASSES, TARGET) if best.get(of.name) is not None]
    reached = "".join(f", {of.title} {of.text(best[of.name])} there" for of in scores)
    said = (
        f"Chosen for {method} on a validation part, never on test samples: "
        f"{', '.join(each)}{reached}; methods beside it use the same values."
    )
    ends = [f"{k} = {v}" for k, v in chosen.items() if at_end(v, grid[k])]
    more = f" At an end of the grid, where a wider one might give more: {', '.join(ends)}."
    return said + more * bool(ends)


def at_end(value: object, grid: Sequence[Any]) -> bool:
    """Return whether a tuned value is the least or the greatest of several numbers."""
    numbers = [one for one in grid if isinstance(one, int | float) and type(one) is not bool]
    return len(numbers) == len(grid) > 1 and value in (min(numbers), max(numbers))
