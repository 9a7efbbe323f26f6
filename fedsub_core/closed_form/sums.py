"""A person's statistics: sums of whole numbers, so that no order of adding changes a bit.

Features come in whole levels (:mod:`fedsub_core.encoders`), so what is summed of them is whole,
too: forgetting a person subtracts exactly what was added, data in parts give what all of them give
at once, and masks of whole numbers can hide a summand.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedsub_core.closed_form.grids import packed

#: Levels in a unit: a feature is a whole number of -128 to 127 over this.
UNIT = 128
#: Whole numbers that travel in 16 bits.
GREATEST = 2**15 - 1
#: Samples that a product is taken of at a time: as float64, whole numbers up to 2^53 are exact.
_ROWS = 4096

Whole = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Statistics:
    """What heads need to know of a person's samples, or of many people's: sums over samples.

    Parameters
    ----------
    gram : int64 [(D + 1) (D + 2) / 2]
        Of the levels with a constant in front, ``phi^T phi``: the lower triangle, row after row, so
        that the first features' block stands in front.
    cross : int64 [classes, D + 1]
        The levels of each class's samples, summed; the constant's, over ``UNIT``, counts them.
    """

    gram: Whole
    cross: Whole

    def __add__(self, other: Statistics) -> Statistics:
        return Statistics(self.gram + other.gram, self.cross + other.cross)

    def __sub__(self, other: Statistics) -> Statistics:
        return Statistics(self.gram - other.gram, self.cross - other.cross)

    def first(self, features: int) -> Statistics:
        """Return the statistics of the first features alone."""
        return Statistics(self.gram[: packed(features)], self.cross[:, : features + 1])

    @property
    def features(self) -> int:
        """Features, without the constant."""
        return int(self.cross.shape[1]) - 1

    @property
    def counts(self) -> Whole:
        """Samples of each class, ``[classes]``."""
        return self.cross[:, 0] // UNIT

    @cached_property
    def square(self) -> NDArray[np.float64]:
        """``phi^T phi`` in units, ``[D + 1, D + 1]``."""
        whole: NDArray[np.float64] = squared(self.gram, self.features + 1) / UNIT**2
        return whole


def below(whole: NDArray[np.float64]) -> Whole:
    """Return the lower triangle of whole numbers [rows, rows], row after row."""
    return whole.ravel().take(_places(len(whole))).astype(np.int64)


def squared(triangle: NDArray[np.number], rows: int) -> NDArray[np.float64]:
    """Return the symmetric matrix ``[rows, rows]`` of a lower triangle."""
    whole = np.zeros((rows, rows))
    whole.ravel()[_places(rows)] = triangle
    whole += np.tril(whole, -1).T  # to zeros
    return whole


def levels(x: NDArray[np.floating]) -> NDArray[np.float64]:
    """Return the whole levels of features [n, D] with a constant in front, [n, D + 1].

    As float64, which products of whole numbers are exact and fast in.
    """
    phi = np.empty((len(x), x.shape[1] + 1))
    phi[:, 0] = UNIT
    phi[:, 1:] = np.rint(np.asarray(x, np.float64) * UNIT)
    return phi


def statistics(
    x: NDArray[np.floating],
    y: NDArray[Any],
    classes: int,
    weights: NDArray[np.float64] | None = None,
) -> Statistics:
    """Return the statistics of samples.

    Parameters
    ----------
    x : [n, D], multiples of ``1 / UNIT`` in [-1, 1].
    y : int64 [n], labels below `classes`; of a target float32, places in its range.
    weights : [n], how much each sample counts, such that those of a class add up to a whole number
        (:func:`recency`); None: all once. Sums are then rounded to whole numbers.
    """
    width = x.shape[1] + 1
    gram, cross = np.zeros((width, width)), np.zeros((classes, width))
    for start in range(0, len(x), _ROWS):
        some = slice(start, start + _ROWS)
        phi = levels(x[some])
        counted = phi if weights is None else phi * weights[some, None]
        gram += phi.T @ counted
        cross += one_hot(y[some], classes).T @ counted
    whole = np.rint(cross).astype(np.int64)
    if y.dtype.kind == "f":  # what both ends have is whole together
        whole[0] = np.rint(cross.sum(0)).astype(np.int64) - whole[1]
    if weights is None:
        return Statistics(below(gram), whole)
    # Rounded are products about the means that follow from rounded sums: they are what is checked,
    # and small where a feature hardly varies.
    about = np.rint(gram - _moved(cross.sum(0), *_means(whole)))
    return Statistics(below(about) + about_zero(whole), whole)


def about_zero(cross: Whole) -> Whole:
    """Return by how much products about zero are larger than those about whole means: a triangle.

    Of levels with sums s, about m: ``m s^T + s m^T - n m m^T``; the constant's row is s itself.
    """
    # Whole numbers below 2^53: exact, and much faster so.
    return below(_moved(cross.sum(0).astype(np.float64), *_means(cross)))


def _means(cross: Whole) -> tuple[NDArray[np.float64], int]:
    """Return the whole levels next to each feature's mean, 0 for the constant; how many samples."""
    sums = cross.sum(0).astype(np.float64)
    samples = max(int(sums[0]) // UNIT, 1)
    means: NDArray[np.float64] = np.rint(sums / samples)
    means[0] = 0
    return means, samples


def _moved(
    sums: NDArray[np.float64], means: NDArray[np.float64], samples: int
) -> NDArray[np.float64]:
    left, right = np.stack([means, sums, -samples * means], 1), np.stack([sums, means, means])
    of: NDArray[np.float64] = left @ right
    of[:, 0] = UNIT * sums
    return of


def recency(y: NDArray[Any], factor: float) -> NDArray[np.float64]:
    """Return how much each sample counts where older ones count less, [n], at most 1.

    `factor` times as much as the next newer one of its class: labels come in order of time, and
    who has not done something for long still knows it. Those of a class are made less by so much
    that they add up to a whole number.
    """
    weights, y = np.empty(len(y)), strata(y)
    for label in np.unique(y):
        own = np.flatnonzero(y == label)
        plain = factor ** np.arange(len(own) - 1, -1, -1)
        # A sum of ones must not fall below itself by rounding.
        weights[own] = plain * (np.floor(plain.sum() + 1e-9) / plain.sum())
    return weights


def strata(y: NDArray[Any]) -> NDArray[np.int64]:
    """Return the class by which each sample is cut into stretches, [n]: of a target one for all."""
    return np.zeros(len(y), np.int64) if y.dtype.kind == "f" else y


def one_hot(y: NDArray[Any], classes: int) -> NDArray[np.float64]:
    """Return 1 at each sample's class, [n, classes]; of a target its share of either end."""
    if y.dtype.kind == "f":
        place = y.astype(np.float64)
        return np.stack([1 - place, 1 + place], 1) / 2
    hot: NDArray[np.float64] = (y[:, None] == np.arange(classes)).astype(np.float64)
    return hot


def total(of: Sequence[Statistics]) -> Statistics:
    """Return the sum of several people's statistics."""
    return Statistics(sum(s.gram for s in of), sum(s.cross for s in of))  # type: ignore[arg-type]


def rounded(values: Whole) -> tuple[NDArray[np.int16], int]:
    """Return whole numbers that fit 16 bits, and how often they were halved for that.

    Halves are rounded up, and what comes back (:func:`restored`) is whole: rounding is a person's
    own, sums of what was sent stay exact. It is off by 1 in 2^16 of the greatest at most.
    """
    shift = 0
    while np.abs(halved(values, shift)).max(initial=0) > GREATEST:
        shift += 1
    return halved(values, shift).astype(np.int16), shift


def restored(values: NDArray[np.integer], shift: int) -> Whole:
    """Inverse of :func:`rounded`, up to rounding."""
    return values.astype(np.int64) << shift


def halved(values: Whole, shift: int | Whole) -> Whole:
    """Return values halved `shift` times; halves are rounded up."""
    return (values + (1 << shift >> 1)) >> shift


@lru_cache(maxsize=2)
def triangle(width: int) -> tuple[NDArray[np.intp], NDArray[np.intp], NDArray[np.intp]]:
    """Return row and column of each number of a lower triangle, and where its diagonal stands."""
    rows, columns = np.tril_indices(width)
    return rows, columns, np.flatnonzero(rows == columns)


@lru_cache(maxsize=2)
def _places(width: int) -> NDArray[np.intp]:
    """Return where the numbers of a lower triangle stand in the whole matrix, row after row."""
    return np.flatnonzero(np.tri(width, dtype=np.bool_))
