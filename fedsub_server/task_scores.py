"""The scores by which people are compared: macro F1, or of a target the mean absolute error."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class TaskScores:
    """The score of a task, and the other numbers that tables have beside it.

    Parameters
    ----------
    name, title : of the score by which people and methods are compared.
    sign : 1 where more of it is better, -1 where less is.
    form : how its numbers are written; a target's have a unit, so their size is not known.
    worst : the percentile over people beyond which the worst-off tenth lies.
    others : titles of the other numbers, by their names in a summary.
    gain : what a gain is, in words.
    """

    name: str
    title: str
    sign: int
    form: str
    worst: int
    others: Mapping[str, str]
    gain: str

    @property
    def worst_name(self) -> str:
        """The name of the worst tenth's percentile in files."""
        return f"p{self.worst}"

    @property
    def worst_title(self) -> str:
        """The title of the worst tenth's percentile."""
        return f"{self.worst} %"

    @property
    def always(self) -> dict[str, str]:
        """The names of the numbers in a summary, by what a study's file calls them."""
        names = (self.name, f"{self.name}_{self.worst_name}", *self.others)
        return {name.replace("_", "-"): name for name in names}

    def text(self, value: float, sign: str = "") -> str:
        """Return a number of the score, or of a difference of it, as tables write it."""
        return f"{value:{sign}{self.form}}"

    def ends(self, interval: tuple[float, float] | None, sign: str = "") -> str:
        """Return an interval as it stands behind a number; "" without one."""
        if interval is None:
            return ""
        low, high = (self.text(end, sign) for end in interval)
        return f" ({low} to {high})"


CLASSES = TaskScores(
    "macro_f1", "macro F1", 1, ".3f", 10, {"weighted_f1": "weighted F1", "loss": "loss"},
    "more macro F1",
)  # fmt: skip
TARGET = TaskScores(
    "mae", "MAE", -1, ".4g", 90, {"rmse": "RMSE", "r2": "R2", "loss": "loss"}, "less MAE"
)
