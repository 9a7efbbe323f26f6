"""Arithmetic of whole numbers, int64 throughout: every language computes the same bits.

All divisions round down. Bounds are for windows of :data:`LONGEST` samples in time at most.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fedsub_core.encoders.encoder import FULL

Whole = NDArray[np.int64]

#: The longest windows; the handshake takes no longer ones either.
LONGEST = 2**18
#: Parts of an octave that logarithms count.
OCTAVE = 32


def level(part: Whole, whole: Whole | int) -> Whole:
    """Return ``part / whole`` rounded, halves up, as a level from -128 to 127; `whole` from 1."""
    found: Whole = np.clip((2 * part + whole) // (2 * whole), -FULL, FULL - 1)
    return found


def root(n: Whole) -> Whole:
    """Return the whole part of the square root of n from 0 below 2**60.

    A float's root may be one off: n has more digits than it holds.
    """
    r = np.sqrt(n.astype(np.float64)).astype(np.int64)
    r -= r * r > n
    r += (r + 1) * (r + 1) <= n
    return r


def powers(n: Whole) -> Whole:
    """Return the exponents of the greatest powers of two up to n, from 1."""
    e = np.zeros(n.shape, np.int64)
    for bits in (32, 16, 8, 4, 2, 1):
        e += bits * (n >> (e + bits) > 0)
    return e


def octaves(n: Whole) -> Whole:
    """Return about 32 log2(n) of n from 1 below 2**57: straight lines between powers of two."""
    e = powers(n)
    return OCTAVE * e + ((n - (1 << e)) * OCTAVE >> e)
