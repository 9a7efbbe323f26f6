"""Whether samples can have led to sums, and how far heads may be led astray by sums that none did.

Of samples the products about the mean are those of class means and those within classes: so what is
left when the products of class means are taken away has no negative eigenvalue. And a head's
squared error ``y^T y - 2 b^T w + w^T A w`` is not below 0, so that one that is solved of samples
says no more of them than what is right: ``b^T (A + lam I)^-1 b`` is at most ``y^T y``.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fedsub_core.closed_form.candidates import LEAST_DEVIATION, Shared
from fedsub_core.closed_form.grids import WITH_OTHERS
from fedsub_core.closed_form.sending import Rounded
from fedsub_core.closed_form.sums import UNIT, Statistics, squared

Floats = NDArray[np.float64]

#: How much of a class mean may be rounding, where class sums were rounded.
_PART = 0.05
#: Sums whose head says more than so many times what is right lead people astray. Rounding alone
#: may do a little: it hides what of directions is as small as the least penalty. Where devices have
#: failed, less is enough.
MOST_SAID, FAILED_SAID = 100.0, 2.0


def could_be(sums: Rounded, fading: bool = False) -> bool:
    """Return whether samples can have led to a person's sums, but for rounding.

    Rounding moves each product by half a step at most: no direction's square by more than half of
    the number of features in steps, which is what the diagonal is given.

    Parameters
    ----------
    fading : whether samples counted in part, so that class sums were rounded, too.
    """
    width, cross = sums.cross.shape[1], sums.class_sums.astype(np.float64)
    step = 2.0 ** sums.shifts[1:]
    total = cross.sum(0)
    samples = max(total[0] // UNIT, 1)
    mean = np.rint(total / samples)
    inside = squared(sums.gram, width)  # in steps
    room = np.full(width, width / 2)
    counts = cross[:, 0] / UNIT
    away = (cross - counts[:, None] * mean) / step
    lost = 2.0 ** sums.shifts[0] if sums.shifts[0] or fading else 0.0
    if lost:
        # Half of what was lost may be missing of each number; of counts, that times the mean.
        length = width * lost**2
        of_mean = length * len(cross) ** 2 / (_PART * samples)
        of_classes = (length / (_PART * np.maximum(counts, 0.5))).sum()
        room += (of_mean + of_classes) / step**2
        middle = mean / step
        inside += _PART * samples * np.outer(middle, middle)
        away *= np.sqrt(1 - _PART)
        counts = counts + lost / UNIT
    held = counts > 0
    away = away[held] / np.sqrt(counts[held])[:, None]
    inside -= away.T @ away
    inside[np.diag_indices(width)] += room
    return positive(inside[1:, 1:])


def positive(matrix: Floats) -> bool:
    """Return whether a symmetric matrix has a Cholesky factor: no eigenvalue of 0 or below."""
    try:
        np.linalg.cholesky(matrix)
    except np.linalg.LinAlgError:
        return False
    return True


def said_most(sums: Statistics) -> tuple[float, Floats]:
    """Return how much a head says of the samples that it is solved of, over what is right.

    Of sums over samples at most 1. Also that head, [D + 1], of the class of which most is said: for
    features in units with the constant in front. Products are solved as devices solve them.
    """
    n = max(float(sums.cross[:, 0].sum()) / UNIT, 1.0)
    right = _right(sums)
    mean = sums.square[0, 1:] / n
    about = sums.square[1:, 1:] - n * np.outer(mean, mean)
    deviation = np.sqrt(np.maximum(np.diagonal(about) / n, LEAST_DEVIATION**2))
    about /= np.outer(deviation, deviation)
    b = (right[:, 1:] - right[:, :1] * mean).T / deviation[:, None]
    heads = _solved(about, b)
    bias = right[:, 0] / (n + WITH_OTHERS[0])
    much = (b * heads).sum(0) + bias * right[:, 0]
    most = int(much.argmax())
    weight = heads[:, most] / deviation
    return float(much[most]) / n, np.concatenate([[bias[most] - weight @ mean], weight])


def sound(shared: Shared) -> bool:
    """Return whether heads on sums that came say no more than a little beyond what is right."""
    values, _, b = shared.solved
    n = max(float(shared.sums.cross[:, 0].sum()) / UNIT, 1.0)
    much = (b**2 / (values + WITH_OTHERS[0])[:, None]).sum(0)
    return bool(much.max() <= MOST_SAID * n)  # also where it is no number


def squared_error(sums: Statistics, head: Floats) -> float:
    """Return the squared error of a class's `head` [D + 1] over the samples of sums.

    Below 0 no samples have it, whatever the head. The class is the one of which it is least.
    """
    n = float(sums.cross[:, 0].sum()) / UNIT
    return n - 2 * float((_right(sums) @ head).max()) + float(head @ sums.square @ head)


def _right(sums: Statistics) -> Floats:
    """Return products with what is right, 1 for a sample's class and -1 else, [classes, D + 1]."""
    cross = sums.cross / UNIT
    right: Floats = 2 * cross - cross.sum(0)
    return right


def _solved(products: Floats, b: Floats) -> Floats:
    """Return ``(products + lam I)^-1 b`` at the least penalty; eigenvalues below 0 count as 0."""
    penalty = WITH_OTHERS[0]
    ridge = products + penalty * np.eye(len(products))
    if positive(ridge):
        found: Floats = np.linalg.solve(ridge, b)
        return found
    values, vectors = np.linalg.eigh(products)
    among: Floats = vectors @ ((vectors.T @ b) / (np.maximum(values, 0) + penalty)[:, None])
    return among
