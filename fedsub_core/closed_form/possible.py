"""Tests of sums: can any samples have led to them, and how far can false sums lead heads astray.

Two facts hold for sums over samples. The scatter about the mean is the scatter of class means plus
the scatter within classes. So the second, which is left when the first is taken away, has no
negative eigenvalue. And a head's squared error ``y^T y - 2 b^T w + w^T A w`` is not below 0. So
the share of the targets that a head explains, ``(2 b^T w - w^T A w) / y^T y``, is at most 1.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from fedsub_core.closed_form.grids import WITH_OTHERS
from fedsub_core.closed_form.scale import LEAST_DEVIATION
from fedsub_core.closed_form.sending import Rounded
from fedsub_core.closed_form.sums import GREATEST, UNIT, Statistics, squared, triangle

Floats = NDArray[np.float64]

#: How much of a class mean may be rounding, where class sums were rounded.
_PART = 0.05
#: Explained shares beyond which sums may lead people astray, and each person's are looked at. The
#: second holds where devices have failed.
MOST_EXPLAINED, FAILED_EXPLAINED = 100.0, 2.0


def could_be(sums: Rounded, fading: bool = False) -> bool:
    """Return whether samples can have led to a person's sums, but for rounding.

    Rounding moves each product by half a step at most: no direction's square by more than half of
    the number of features in steps, which is what each direction is given. And samples vary in no
    more directions than there are of them: sums of few that vary in all would stiffen all heads.

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
    directions = int(counts.sum()) - int(held.sum())
    # What was given for rounded class sums has some more.
    directions += len(cross) + 1 if lost else 0
    if fading or directions >= width - 1:
        return positive((inside + np.diag(room))[1:, 1:])
    values = np.linalg.eigvalsh(inside[1:, 1:])
    return bool(values[0] > -room.max() and values[-1 - directions] < room.max())


def positive(matrix: Floats) -> bool:
    """Return whether a symmetric matrix has a Cholesky factor: no eigenvalue of 0 or below."""
    try:
        np.linalg.cholesky(matrix)
    except np.linalg.LinAlgError:
        return False
    return True


def explained_share(sums: Statistics) -> tuple[float, Floats]:
    """Return the greatest share of its targets' squares that a class's head explains, and the head.

    Of sums over samples the share is at most 1, but for rounding. The head, [D + 1], is for
    features in units, with the constant in front. It is solved as devices solve it.
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
    much = (2 * b * heads - heads * (about @ heads)).sum(0) + (2 * right[:, 0] - n * bias) * bias
    most = int(much.argmax())
    weight = heads[:, most] / deviation
    return float(much[most]) / n, np.concatenate([[bias[most] - weight @ mean], weight])


@dataclass(frozen=True, eq=False)
class Lost:
    """Bounds of the rounding error in sums, of one person or of many.

    Parameters
    ----------
    steps : of each feature's square, the sum of people's steps, [D + 1], in levels squared.
    cross : the sum of people's steps of class sums.
    """

    steps: Floats
    cross: float

    @classmethod
    def of(cls, sums: Rounded) -> Lost:
        """Return the bounds of one person's rounding; twice that for who counts in part."""
        steps = (4.0 ** sums.shifts[1:] + 2).astype(np.float64)
        return cls(steps, 2.0 ** sums.shifts[0] + 1)

    @classmethod
    def of_many(cls, sums: Statistics, people: int) -> Lost:
        """Return the bounds of sums over people: whoever halves numbers has some that need it."""
        _, _, diagonal = triangle(sums.features + 1)
        steps = 4 * np.maximum(sums.gram[diagonal], 0) / GREATEST + 3 * people
        return cls(steps, float(2 * sums.cross[:, 0].sum() / GREATEST + 2 * people))

    def first(self, features: int) -> Lost:
        """Return the bounds for sums of the first features."""
        return replace(self, steps=self.steps[: features + 1])

    def most(self, head: Floats, classes: int) -> float:
        """Return the most by which rounding can lower the squared error of a `head` [D + 1]."""
        size = np.abs(head)
        rest = size[1:].sum()
        products = (size * np.sqrt(self.steps)).sum() ** 2 / 2
        sums = classes * self.cross * UNIT * (size[0] * (size[0] + rest) + size[0] + rest + 1)
        return float(products + sums) / UNIT**2


def squared_error(sums: Statistics, head: Floats, lost: Lost) -> float:
    """Return the upper bound of a `head`'s [D + 1] squared error over the samples of sums.

    It is that of the class with the least error. Below 0 no samples have led to the sums, whatever
    the head.
    """
    n = float(sums.cross[:, 0].sum()) / UNIT
    least = n - 2 * float((_right(sums) @ head).max()) + float(head @ sums.square @ head)
    return least + lost.most(head, len(sums.cross))


def sound(sums: Statistics, people: int) -> bool:
    """Return whether samples of so many people, or fewer, can have led to sums, by their heads."""
    share, head = explained_share(sums)
    return share <= MOST_EXPLAINED or squared_error(sums, head, Lost.of_many(sums, people)) >= 0


def _right(sums: Statistics) -> Floats:
    """Return products of features and targets, 1 for a sample's class or -1: [classes, D + 1]."""
    cross = (sums.cross / UNIT).astype(np.float64)
    return np.asarray(2 * cross - cross.sum(0), np.float64)


def _solved(products: Floats, b: Floats) -> Floats:
    """Return ``(products + lam I)^-1 b`` at the least penalty; eigenvalues below 0 count as 0."""
    penalty = WITH_OTHERS[0]
    ridge = products + penalty * np.eye(len(products))
    if positive(ridge):
        return np.asarray(np.linalg.solve(ridge, b), np.float64)
    values, vectors = np.linalg.eigh(products)
    heads = vectors @ ((vectors.T @ b) / (np.maximum(values, 0) + penalty)[:, None])
    return np.asarray(heads, np.float64)
