"""Slots of a vector: numbers in which each person counts once, whatever its samples.

They stand behind the numbers that are weighted by samples, of which there may be none.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fedsub_core.secure.keys import Words
from fedsub_core.secure.quantise import BESIDE, Levels, Total

#: Greatest size of a slot's number; a power of two, so that ones stay whole.
RANGE = 256.0


def levels_of(levels: Levels) -> Levels:
    """Return by which levels slots are rounded, in a sum of whose other numbers these are.

    As many people who weigh 1 sum up to no more than those who weigh as much as one may.
    """
    each = levels.each * levels.weight
    return Levels(RANGE, 1, 1 << (each.bit_length() - 1))


def with_slots(vector: Words, numbers: NDArray[np.floating], levels: Levels) -> Words:
    """Return a vector with slots of these `numbers` behind its own, which have `levels`."""
    slots = levels_of(levels).vector(numbers, 1)
    shortened = vector[-1] | slots[-1]
    return np.concatenate([vector[:-BESIDE], slots[:-BESIDE], vector[-BESIDE:-1], [shortened]])


def in_sum(total: Total, levels: Levels, weighted: int) -> NDArray[np.float64]:
    """Return the sums of slots, float64 [slots], behind so many numbers that are `weighted`."""
    whole = np.rint(total.sum[weighted:] * (levels.each / levels.range))
    sums: NDArray[np.float64] = whole * (RANGE / levels_of(levels).each)
    return sums


def again(vector: Words, weighted: int, before: Levels, levels: Levels, examples: int) -> Words:
    """Return a person's vector by other levels.

    Parameters
    ----------
    weighted : how many of its numbers are no slots.
    before : by which it was rounded.
    examples : how many samples the person has.
    """
    end = vector[-BESIDE:]
    numbers = levels.again(np.concatenate([vector[:weighted], end]), before, examples)
    old = np.append(vector[weighted:-BESIDE], [1, end[1]]).astype(np.uint32)
    own = levels_of(levels).again(old, levels_of(before), 1)
    return np.concatenate([numbers[:-BESIDE], own[:-BESIDE], numbers[-BESIDE:]])
