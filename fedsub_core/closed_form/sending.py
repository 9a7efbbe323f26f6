"""What statistics travel as: what devices and the server make of them must be alike to the bit."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedsub_core.closed_form.stacking import Equations
from fedsub_core.closed_form.sums import (
    GREATEST,
    UNIT,
    Statistics,
    Whole,
    about_zero,
    halved,
    restored,
    rounded,
    squared,
    triangle,
)


@dataclass(frozen=True, eq=False)
class Rounded:
    """A person's statistics in 16 bits a number: class sums, and products about whole means.

    What products are about follows from the class sums, so the receiver knows it. Rounding is by
    feature: one that hardly varies would be lost in the steps of one that does.

    Parameters
    ----------
    gram : int16, a lower triangle as :class:`~fedsub_core.closed_form.sums.Statistics`'s; 0 in the
        constant's row, which is the class sums'.
    cross : int16, as there.
    shifts : int64 [D + 2], how often ``cross`` was halved; and by how many halvings each of the
        two features makes a product smaller, of the constant and D features.
    """

    gram: NDArray[np.int16]
    cross: NDArray[np.int16]
    shifts: NDArray[np.int64]

    @classmethod
    def of(cls, exact: Statistics) -> Rounded:
        """Return a person's statistics, rounded as they travel."""
        cross, of_cross = rounded(exact.cross)
        about = exact.gram - about_zero(restored(cross, of_cross))
        rows, columns, diagonal = triangle(cross.shape[1])
        about[columns == 0] = 0  # the class sums say it
        squares = np.maximum(about[diagonal], 0)
        # What four halvings of a square leave, two halvings of each of its features do.
        by_feature = np.zeros(len(squares), np.int64)
        while (large := squares > GREATEST << (2 * by_feature)).any():
            by_feature += large
        gram = halved(about, by_feature[rows] + by_feature[columns]).clip(-GREATEST, GREATEST)
        return cls(gram.astype(np.int16), cross, np.concatenate([[of_cross], by_feature]))

    def statistics(self) -> Statistics:
        """Return the whole numbers that arrive."""
        cross = self.class_sums
        rows, columns, _ = triangle(cross.shape[1])
        shifts = self.shifts[1:][rows] + self.shifts[1:][columns]
        return Statistics((self.gram.astype(np.int64) << shifts) + about_zero(cross), cross)

    @property
    def class_sums(self) -> Whole:
        """The sums of each class that arrive, int64 [classes, D + 1]."""
        return restored(self.cross, int(self.shifts[0]))

    @property
    def samples(self) -> int:
        """As how many samples they count: of a target its ends' shares add up to that."""
        return (int(self.class_sums[:, 0].sum()) + UNIT // 2) // UNIT

    def counted(self, samples: int, counts_as: int) -> Statistics:
        """Return the summand where so many `samples` count as fewer: whole numbers."""
        whole = self.statistics()
        if counts_as <= 0:
            return whole - whole
        if counts_as >= samples:
            return whole
        part = counts_as / samples
        gram, cross = (np.floor(part * one).astype(np.int64) for one in (whole.gram, whole.cross))
        return Statistics(gram, cross)


@dataclass(frozen=True, eq=False)
class Portable:
    """Sums over people as float32 numbers of a size of at most 1, times ``2 ** exponent``."""

    gram: NDArray[np.float32]
    cross: NDArray[np.float32]
    exponent: int

    @classmethod
    def of(cls, sums: Statistics) -> Portable:
        """Return sums as they travel; 24 bits of each number are kept."""
        greatest = max(int(np.abs(one).max(initial=0)) for one in (sums.gram, sums.cross))
        exponent = greatest.bit_length()
        gram, cross = (
            np.ldexp(one.astype(np.float64), -exponent).astype(np.float32)
            for one in (sums.gram, sums.cross)
        )
        return cls(gram, cross, exponent)

    def sums(self) -> Statistics:
        """Return the sums, whole again."""
        gram, cross = (
            np.rint(np.ldexp(one.astype(np.float64), self.exponent)).astype(np.int64)
            for one in (self.gram, self.cross)
        )
        return Statistics(gram, cross)


def flat(equations: Equations) -> NDArray[np.float64]:
    """Return equations in a row: the lower triangle of ``gram``, ``target``, ``losses``."""
    below = np.tril_indices(len(equations.target))
    return np.concatenate([equations.gram[below], equations.target, equations.losses])


def unflat(row: NDArray[np.floating], candidates: int, samples: float) -> Equations:
    """Inverse of :func:`flat`."""
    triangle = candidates * (candidates + 1) // 2
    gram, target, losses = np.split(np.asarray(row, np.float64), [triangle, triangle + candidates])
    return Equations(samples, squared(gram, candidates), target, losses)
