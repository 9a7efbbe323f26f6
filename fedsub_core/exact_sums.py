"""Weighted sums whose bits follow from no order of people, and from no number of machines.

Each term is rounded to one unit before it is added. Then sums of them are exact, so parts of a
federation can be added up where they are.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import frexp, ldexp

import numpy as np
from numpy.typing import NDArray

from fedsub_core.mapped_file import release

Sums = NDArray[np.float64]

#: Numbers that are added at once: with what they are added to they fit into a core's cache.
BLOCK = 2**13


def add_up(
    terms: Iterable[tuple[Sequence[NDArray[np.float32]], float]],
    sizes: Sequence[int],
    bounds: Sequence[float],
) -> list[Sums]:
    """Return the sum of each tensor by weights, float64 [size] each.

    Parameters
    ----------
    terms : each person's tensors, of any shapes, with their weight, 0 or more. All tensors of one
        are taken before the next one's: so they are read in the order in which a file has them.
    sizes : how many numbers each tensor has.
    bounds : of each tensor, the sum of the weights times the largest size of a number of their
        terms, also of those elsewhere.

    Notes
    -----
    The unit is 2^-51 of a power of 2 above `bound`. No sum is larger than that power, so it is
    a whole number of units below 2^53. Adding 3 * 2^51 units rounds to whole ones (Demmel and
    Nguyen, Fast Reproducible Floating-Point Summation, ARITH 2013, section III).
    """
    units = [ldexp(3.0, frexp(bound)[1]) for bound in bounds]
    totals, buffer = [np.zeros(size) for size in sizes], np.empty(BLOCK)
    for tensors, weight in terms:
        for values, total, rounding in zip(tensors, totals, units, strict=True):
            numbers = np.asarray(values).reshape(-1)
            for i in range(0, len(total), BLOCK):
                term = buffer[: len(total) - i]
                np.multiply(numbers[i : i + BLOCK], weight, out=term, dtype=np.float64)
                term += rounding
                term -= rounding
                total[i : i + BLOCK] += term
            release(values)
    return totals


def greatest(values: NDArray[np.float32]) -> float:
    """Return the largest size of a number; 0 of none."""
    return float(max(-values.min(), values.max())) if values.size else 0.0


def squared_length(values: NDArray[np.float32], begun: NDArray[np.float32]) -> float:
    """Return the squared length of the way from where numbers began, whatever the threads."""
    return float(np.square((values - begun).reshape(-1), dtype=np.float64).sum())
