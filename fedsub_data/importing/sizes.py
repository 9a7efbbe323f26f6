"""Sizes of each person's numbers, by vector and class, of a sample of rows."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from fedsub_data.importing.sensors import Vector
from fedsub_data.importing.source import Rows

Array = NDArray[np.float64]
#: Rows and numbers of a person that are looked at: more change no mean by as much as a unit does.
_ROWS, _NUMBERS = 10_000, 1_000_000
_WINDOWS = 200
#: Fewer rows of a class show nothing.
_FEWEST = 5
#: An acceleration varies by less, or keeps its direction better, where gravity is part of it.
_SPREAD, _STEADY = 0.3, 0.6


@dataclass(frozen=True, eq=False)
class Rest:
    """A vector of three axes in the class in which its length is steadiest.

    Parameters
    ----------
    length : median.
    spread : how far the middle half of lengths reaches, as a share of the median.
    steady : length of the mean vector, as a share of the mean length.
    """

    length: float = np.nan
    spread: float = np.inf
    steady: float = 0.0

    @property
    def still(self) -> bool:
        """Whether an accelerometer shows gravity: its length or its direction stays."""
        return self.spread < _SPREAD or self.steady > _STEADY


@dataclass(eq=False)
class Sizes:
    """Sizes of everybody's vectors.

    Parameters
    ----------
    vectors : that are looked at.
    length : by person, float64 [vectors, classes], mean length; NaN where too few rows show it.
    rest, mean : by person, of each vector of three axes that is no statistic: its rest, and
        float64 [classes, 3], the mean vector as a share of the mean length.
    """

    vectors: Sequence[Vector]
    classes: int
    length: dict[str, Array] = field(default_factory=dict)
    rest: dict[str, dict[Vector, Rest]] = field(default_factory=dict)
    mean: dict[str, dict[Vector, Array]] = field(default_factory=dict)

    def add(self, rows: Rows) -> None:
        """Look at one person's rows."""
        x, y = rows.x, rows.y
        points = int(np.prod(x.shape[2:]))
        step = max(1, len(y) * points // _ROWS, x.size // _NUMBERS)
        if x.ndim == 3:  # of few long windows none is left out, but points of them
            apart = max(1, min(step, len(y) // _WINDOWS))
            thin = x[::apart, :, :: max(1, step // apart)].transpose(0, 2, 1)
            x, y = thin.reshape(-1, thin.shape[2]), np.repeat(y[::apart], thin.shape[1])
        else:
            x, y = x[::step], y[::step]
        x = np.where(np.isfinite(x), x, np.nan)
        length = np.stack(
            [
                np.abs(x[:, vector.columns[0]])
                if len(vector.columns) == 1
                else np.sqrt((x[:, list(vector.columns)] ** 2).sum(axis=1))
                for vector in self.vectors
            ],
            axis=1,
        ).astype(np.float64)
        made = np.full((len(self.vectors), self.classes), np.nan)
        for label in range(self.classes):
            own = length[y == label]
            count = np.isfinite(own).sum(axis=0)
            sums = np.nansum(own, axis=0)
            made[:, label] = np.where(
                (count >= _FEWEST) & (sums > 0), sums / np.maximum(count, 1), np.nan
            )
        self.length[rows.person] = made
        self.rest[rows.person], self.mean[rows.person] = {}, {}
        for i, vector in enumerate(self.vectors):
            if len(vector.columns) == 3 and not vector.statistic:
                self._add(rows.person, vector, x[:, list(vector.columns)], length[:, i], y, made[i])

    def _add(
        self,
        person: str,
        vector: Vector,
        x: NDArray[np.float32],
        length: Array,
        y: NDArray[np.int64],
        sizes: Array,
    ) -> None:
        """Look at one vector of three axes; `sizes` are its mean lengths by class."""
        rest = Rest()
        mean = np.full((self.classes, 3), np.nan)
        for label in np.flatnonzero(np.isfinite(sizes)):
            own = (y == label) & np.isfinite(length)
            mean[label] = x[own].mean(axis=0, dtype=np.float64) / sizes[label]
            low, middle, high = np.percentile(length[own], (25, 50, 75))
            if middle and (spread := float((high - low) / middle)) < rest.spread:
                rest = Rest(float(middle), spread, float(np.linalg.norm(mean[label])))
        self.rest[person][vector], self.mean[person][vector] = rest, mean
