"""How a person's samples stand in equations: features of mean 0 and deviation 1, and a constant."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedsub_core.closed_form.sums import UNIT, Statistics

Floats = NDArray[np.float64]

#: Least deviation of a feature, in units: a constant one stays near zero.
LEAST_DEVIATION = 0.01


@dataclass(frozen=True, eq=False)
class Scale:
    """What makes features have mean 0 and deviation 1: ``z = (phi - mean) / deviation``, [D]."""

    mean: Floats
    deviation: Floats

    @classmethod
    def of(cls, sums: Statistics) -> Scale:
        """Return the scale of the samples that were summed: the constant's row says all."""
        # Not of whole samples: of whom few count in part, a part of a sample does, too.
        n = max(float(sums.cross[:, 0].sum()) / UNIT, 1.0)
        mean = sums.square[0, 1:] / n
        variance = np.maximum(np.diagonal(sums.square)[1:] / n - mean**2, LEAST_DEVIATION**2)
        return cls(mean, np.sqrt(variance))

    @classmethod
    def centred(cls, x: NDArray[np.floating]) -> Scale:
        """Return the scale that takes the mean of features [n, D] away, and no more.

        What hardly varies at one person's, and does at others', is then not made large.
        """
        return cls(x.sum(0, dtype=np.float64) / max(len(x), 1), np.ones(x.shape[1]))

    def __call__(self, x: NDArray[np.floating]) -> Floats:
        """Return features [n, D] scaled, with a constant 1 behind them, [n, D + 1]."""
        z = np.ones((len(x), x.shape[1] + 1))
        z[:, :-1] = (x - self.mean) / self.deviation
        return z

    def moments(self, sums: Statistics) -> tuple[Floats, Floats]:
        """Return ``A = z^T z`` [D + 1, D + 1] and ``B = z^T Y`` [D + 1, classes] of the samples.

        ``Y`` is 1 for a sample's class and -1 for all others.
        """
        width = len(self.mean) + 1
        change = np.zeros((width, width))  # of [1, phi] into [z, 1]
        change[0, :-1], change[0, -1] = -self.mean / self.deviation, 1
        change[np.arange(1, width), np.arange(width - 1)] = 1 / self.deviation
        cross = sums.cross / UNIT
        targets = 2 * cross - cross.sum(0)
        return change.T @ sums.square @ change, change.T @ targets.T

    def unscaled(self, weights: Floats) -> tuple[Floats, Floats]:
        """Return a head's weight [classes, D] and bias [classes] for features as they come.

        `weights` [D + 1, classes] are for scaled ones.
        """
        weight = (weights[:-1] / self.deviation[:, None]).T
        return weight, weights[-1] - weight @ self.mean


class Samples:
    """A person's samples, scaled once for each scale.

    Parameters
    ----------
    x : features [n, D].
    root : [n], each sample counts so much, squared; None: all once.
    """

    def __init__(self, x: NDArray[np.floating], root: Floats | None = None) -> None:
        self.x, self.root = x, root
        self._scaled: dict[Scale, Floats] = {}

    def scaled(self, scale: Scale) -> Floats:
        """Return scaled rows with a constant, [n, D + 1], whose sums of squares count so."""
        if scale not in self._scaled:
            self._scaled[scale] = counted(scale(self.x), self.root)
        return self._scaled[scale]


def counted(rows: Floats, root: Floats | None) -> Floats:
    """Return rows [n, ...] such that sums of squares count each `root` [n] squared times."""
    return rows if root is None else rows * root[:, None]
