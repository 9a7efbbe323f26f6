"""Ridge heads in closed form: penalty and temperature by leave-one-out."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedsub_core.closed_form.grids import TEMPERATURES
from fedsub_core.closed_form.stacking import log_losses
from fedsub_core.closed_form.sums import one_hot

Floats = NDArray[np.float64]
Labels = NDArray[np.int64]

#: Of features of deviation 1.
PENALTIES = tuple(float(p) for p in np.geomspace(1e-2, 1e5, 15))
#: A feature's least deviation, as a share of the largest one, and by what scores are multiplied
#: where nothing else is known.
LEAST, MIDDLE = 1e-3, 4.0
#: Nats for each half step (a factor of sqrt 2) away from `MIDDLE`, squared.
PULL = 0.15


@dataclass(frozen=True, eq=False)
class Features:
    """Mean and deviation by which features [n, D] are standardised."""

    mean: Floats
    deviation: Floats

    @classmethod
    def of(cls, x: NDArray[np.floating]) -> Features:
        """Return the mean and deviation of samples; what hardly varies is not made large."""
        wide = x.astype(np.float64)
        deviation = wide.std(0)
        floor = max(LEAST * float(deviation.max(initial=0)), 1e-12)
        return cls(wide.mean(0), np.maximum(deviation, floor))

    def __call__(self, x: NDArray[np.floating]) -> Floats:
        """Return features [n, D] standardised."""
        z: Floats = (x - self.mean) / self.deviation
        return z


@dataclass(frozen=True, eq=False)
class Ridge:
    """A head ``weight`` [D + 1, targets] for rows with a constant 1 behind them.

    `left_out` [n, targets] is what it says of each training sample that was left out.
    """

    weight: Floats
    left_out: Floats
    penalty: float

    @classmethod
    def of(cls, rows: Floats, targets: Floats, y: Labels, before: Floats | float = 0.0) -> Ridge:
        """Return the head whose penalty is best by leave-one-out (:func:`judged`).

        Parameters
        ----------
        rows : [n, D], standardised.
        targets : [n, classes].
        y : [n], labels.
        before : what another head says of each sample, to which this one's scores are added.
        """
        z = with_one(rows)
        n, width = z.shape
        if n <= width:
            squares, u = np.linalg.eigh(z @ z.T)
        else:
            squares, v = np.linalg.eigh(z.T @ z)
        some = squares > squares[-1] * 1e-12
        squares = squares[some]
        u = u[:, some] if n <= width else z @ (v[:, some] / np.sqrt(squares))
        along = u.T @ targets
        outside = 1 - (u**2).sum(1)  # of what no feature reaches
        best: tuple[tuple[float, float], float, Floats] | None = None
        for penalty in PENALTIES:
            shrunk = penalty / (squares + penalty)
            residuals = targets - u @ ((1 - shrunk)[:, None] * along)
            left = np.maximum((u**2) @ shrunk + outside, 1e-9)
            missed = residuals / left[:, None]
            how = judged(before + targets - missed, y)
            if best is None or how < best[0]:
                best = how, penalty, missed
        assert best is not None
        _, penalty, missed = best
        weight = z.T @ (u @ (along / (squares + penalty)[:, None]))
        return cls(weight, targets - missed, penalty)

    def __call__(self, rows: Floats) -> Floats:
        """Return the head's scores of rows [n, D], [n, targets]."""
        said: Floats = with_one(rows) @ self.weight
        return said


def with_one(rows: Floats) -> Floats:
    """Return rows with a constant 1 behind them."""
    return np.hstack([rows, np.ones((len(rows), 1))])


def signs(y: Labels, classes: int) -> Floats:
    """Return 1 at each sample's class and -1 elsewhere, [n, classes]."""
    targets: Floats = 2 * one_hot(y, classes) - 1
    return targets


def judged(left_out: Floats, y: Labels) -> tuple[float, float]:
    """Return errors of samples left out, and their loss at the best temperature, nats.

    Samples that are their class's only one do not count: without them nobody knows the class.
    """
    some = np.bincount(y)[y] > 1
    wrong = float((left_out[some].argmax(1) != y[some]).sum())
    return wrong, float(_losses(left_out, y).min())


def temperature(left_out: Floats, y: Labels) -> float:
    """Return by what scores are multiplied before softmax: the least loss of samples left out."""
    return float(TEMPERATURES[int(_losses(left_out, y).argmin())])


def _losses(left_out: Floats, y: Labels) -> Floats:
    """Return the loss at each temperature; few samples say little against `MIDDLE`."""
    some = np.bincount(y)[y] > 1
    steps = 2 * np.log2(np.array(TEMPERATURES) / MIDDLE)
    losses: Floats = PULL * steps**2
    return losses + log_losses(left_out[some], y[some], 0.0) if some.any() else losses
