"""Weighted sums whose bits follow from no order of people, and from no number of machines.

Each term is rounded to one unit before it is added. Then sums of them are exact, so parts of a
federation can be added up where they are.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import frexp, ldexp

import numpy as np
from numpy.typing import NDArray

from fedsub_core.mapped_file import release

Sums = NDArray[np.float64]


def add_up(terms: Iterable[tuple[NDArray[np.float32], float]], size: int, bound: float) -> Sums:
    """Return the sum of numbers by weights, float64 [`size`].

    Parameters
    ----------
    terms : numbers of any shape, `size` of them, with the weight of each, 0 or more.
    bound : the sum of the weights times the largest size of a number of their terms, also of
        those elsewhere.

    Notes
    -----
    The unit is 2^-51 of a power of 2 above `bound`. No sum is larger than that power, so it is
    a whole number of units below 2^53. Adding 3 * 2^51 units rounds to whole ones (Demmel and
    Nguyen, Fast Reproducible Floating-Point Summation, ARITH 2013, section III).
    """
    rounding = ldexp(3.0, frexp(bound)[1])
    total, term = np.zeros(size), np.empty(size)
    for values, weight in terms:
        np.multiply(values.reshape(-1), weight, out=term, dtype=np.float64)
        term += rounding
        term -= rounding
        total += term
        release(values)
    return total


def greatest(values: NDArray[np.float32]) -> float:
    """Return the largest size of a number; 0 of none."""
    return float(max(-values.min(), values.max())) if values.size else 0.0


def squared_length(values: NDArray[np.float32], begun: NDArray[np.float32]) -> float:
    """Return the squared length of the way from where numbers began, whatever the threads."""
    return float(np.square((values - begun).reshape(-1), dtype=np.float64).sum())
