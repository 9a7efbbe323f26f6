"""The spread of a target's values over recordings, as they come."""

from dataclasses import dataclass
from math import inf
from typing import Any

from fedsub.recordings.answers import Answered
from fedsub_core.data.target import Target


@dataclass
class Spread:
    """The least, mean and greatest value of the windows of some recordings.

    Parameters
    ----------
    target : what is predicted.
    windows : how many were answered.
    """

    target: Target
    windows: int = 0
    least: float = inf
    greatest: float = -inf
    total: float = 0.0

    def add(self, answered: Answered) -> None:
        """Take answers for windows in a row."""
        values = answered.shares[:, 0].astype("float64")
        self.windows += len(values)
        self.least = min(self.least, *values)
        self.greatest = max(self.greatest, *values)
        self.total += float(values.sum())

    @property
    def about(self) -> dict[str, Any]:
        """What a document of answers says of all of them."""
        return {"target": self.target.name, "unit": self.target.unit}

    @property
    def words(self) -> str:
        """The spread in words."""
        ends = f"from {self.least:.4g} to {self.greatest:.4g}"
        mean = f"mean {self.total / max(1, self.windows):.4g}"
        return f"{self.target.name}: {ends}, {mean} {self.target.unit}".rstrip()
