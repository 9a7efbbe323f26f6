"""Numbers of any size as whole words, so that their sum under masks is exact.

Levels of a range fit changes, whose size is known. Sums of features may be of any size:
a sensor's units are its maker's. So each number is a fixed-point one of 480 bits, cut into words of
16 bits, which 65,536 people can add up modulo 2**32. That holds squares of all float32 numbers.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from fedsub_core.secure.keys import Words

#: Words of a number, and bits of a number in each of them.
LIMBS, LIMB_BITS = 30, 16
#: Bits behind the point. Smaller shares of a number are rounded.
FRACTION_BITS = 320
#: Numbers must be below this size, so that no sum of them is beyond the words.
LARGEST = 2.0**142
#: People of one sum at most.
MOST_PEOPLE = 2**LIMB_BITS

_BYTES = LIMBS * LIMB_BITS // 8


def words_of(numbers: NDArray[np.float64]) -> Words:
    """Return numbers ``[n]`` as words ``[n * LIMBS]``, each below 2**16.

    Raises ValueError if a number is not finite, or not below :data:`LARGEST`.
    """
    if not (np.abs(numbers) < LARGEST).all():
        raise ValueError(f"got numbers up to {np.abs(numbers).max()}, expected below {LARGEST:g}")
    fixed = (round(math.ldexp(number, FRACTION_BITS)) for number in numbers.tolist())
    cut = b"".join(one.to_bytes(_BYTES, "little", signed=True) for one in fixed)
    return np.frombuffer(cut, "<u2").astype(np.uint32)


def numbers_of(summed: Words) -> NDArray[np.float64]:
    """Return the sums ``[n]``, rounded once, of words ``[n * LIMBS]`` that people added up."""
    rows = summed.reshape(-1, LIMBS).tolist()
    fixed = (sum(word << LIMB_BITS * i for i, word in enumerate(row)) for row in rows)
    return np.array([_signed(one) / (1 << FRACTION_BITS) for one in fixed], np.float64)


def _signed(fixed: int) -> int:
    """Return a whole number modulo 2**480 as the one nearest to 0."""
    size = 8 * _BYTES
    fixed &= (1 << size) - 1
    return fixed - (1 << size) if fixed >> (size - 1) else fixed
