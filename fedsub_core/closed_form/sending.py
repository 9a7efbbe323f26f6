"""What statistics travel as: what devices and the server make of them must be alike to the bit."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedsub_core.closed_form.stacking import Equations
from fedsub_core.closed_form.sums import Statistics, restored, rounded, squared


@dataclass(frozen=True, eq=False)
class Rounded:
    """A person's statistics in 16 bits a number.

    Parameters
    ----------
    gram, cross : int16, as in :class:`~fedsub_core.closed_form.sums.Statistics`.
    shifts : how often each was halved.
    """

    gram: NDArray[np.int16]
    cross: NDArray[np.int16]
    shifts: tuple[int, int]

    @classmethod
    def of(cls, exact: Statistics) -> Rounded:
        """Return what travels of a person's statistics."""
        (gram, of_gram), (cross, of_cross) = rounded(exact.gram), rounded(exact.cross)
        return cls(gram, cross, (of_gram, of_cross))

    def statistics(self) -> Statistics:
        """Return the whole numbers that arrive."""
        return Statistics(restored(self.gram, self.shifts[0]), restored(self.cross, self.shifts[1]))

    def counted(self, samples: int, counts_as: int) -> Statistics:
        """Return what is added up where so many `samples` count as fewer: whole numbers."""
        whole = self.statistics()
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
        """Return what travels of sums; 24 bits of each number are kept."""
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
