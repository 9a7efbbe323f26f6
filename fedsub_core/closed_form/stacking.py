"""How much each candidate counts: by what it says of a person's samples that it did not see.

Stacking (Wolpert 1992; non-negative weights: Breiman 1996) needs of the samples nothing but the
normal equations of what candidates say. Those are sums, so people pool them: who has few samples
goes by everybody's as well.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

from fedsub_core.closed_form.grids import TEMPERATURES

Floats = NDArray[np.float64]

#: Of the greatest diagonal element, added to all: candidates are often nearly equal.
_JITTER = 1e-9


@dataclass(frozen=True, eq=False)
class Equations:
    """Sums over samples that weights and temperature follow from.

    Parameters
    ----------
    gram : [K, K], of what candidates say, over samples and classes.
    target : [K], of what they say with what is right.
    losses : [T], negative log likelihood at each of ``TEMPERATURES``, nats.
    """

    samples: float
    gram: Floats
    target: Floats
    losses: Floats

    def __add__(self, other: Equations) -> Equations:
        """Return the equations of both's samples."""
        return Equations(*(getattr(self, n) + getattr(other, n) for n in _PARTS))

    def __rmul__(self, times: float) -> Equations:
        """Return these equations, each sample counted so many times."""
        return Equations(*(times * getattr(self, n) for n in _PARTS))


_PARTS = tuple(one.name for one in fields(Equations))


def normal_equations(said: Floats, targets: Floats) -> tuple[Floats, Floats]:
    """Return ``gram`` [K, K] and ``target`` [K] of what K candidates say, [K, n, classes]."""
    flat = said.reshape(len(said), -1)
    return flat @ flat.T, flat @ targets.reshape(-1)


def mixing_weights(gram: Floats, target: Floats) -> Floats:
    """Return the weights [K], none negative, of the least squared error.

    The active-set method of Lawson and Hanson (1974, algorithm NNLS), on normal equations.
    """
    gram = gram + _JITTER * max(float(np.diagonal(gram).max(initial=0)), 1e-300) * np.eye(len(gram))
    weights, used = np.zeros(len(target)), np.zeros(len(target), np.bool_)
    enough = 1e-10 * np.abs(target).max(initial=0)
    for _ in range(3 * len(target)):
        gain = np.where(used, -np.inf, target - gram @ weights)
        if used.all() or gain.max() <= enough:
            break
        used[gain.argmax()] = True
        while True:
            best = np.zeros_like(weights)
            best[used] = np.linalg.solve(gram[np.ix_(used, used)], target[used])
            wrong = used & (best <= 0)
            if not wrong.any():
                break
            step = (weights[wrong] / (weights[wrong] - best[wrong])).min()
            weights = weights + step * (best - weights)
            used &= weights > 1e-14
            weights[~used] = 0
            if not used.any():
                best = weights
                break
        weights = best
    return weights


def log_losses(
    scores: Floats,
    labels: NDArray[np.int64],
    added: Floats | float = 0.0,
    weights: Floats | float = 1.0,
) -> Floats:
    """Return the negative log likelihood of labels [n] at each temperature, [T], summed, nats.

    `added` [classes] to scores at any temperature; each sample counts `weights` [n] times.
    """
    scaled = np.array(TEMPERATURES)[:, None, None] * scores + added
    scaled = scaled - scaled.max(2, keepdims=True)
    right = scaled[:, np.arange(len(labels)), labels]
    losses: Floats = ((np.log(np.exp(scaled).sum(2)) - right) * weights).sum(1)
    return losses
