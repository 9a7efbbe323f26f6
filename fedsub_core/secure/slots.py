"""Slots of a vector: rows of classes, in which each person counts once whatever its samples.

They stand behind the numbers that are weighted by samples. Each class has one number that says
whether a person has it, and one row. A row is added up for classes alone that are asked for, of
which enough people are sure to be in the sum: the sum of one person's row is that row.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedsub_core.secure.keys import Words
from fedsub_core.secure.quantise import BESIDE, Levels, Total

#: Greatest size of a row's number; a power of two, so that ones stay whole.
RANGE = 256.0


@dataclass(frozen=True)
class Slots:
    """What a sum says of classes.

    Parameters
    ----------
    people : how many have each class, int64 [classes].
    rows : the sum of their rows, float64 [classes, d]; 0 where it was not asked for.
    """

    people: NDArray[np.int64]
    rows: NDArray[np.float64]


def numbers(classes: int, size: int) -> int:
    """Return how many numbers slots have of rows of a size."""
    return classes * (1 + size)


def levels_of(levels: Levels) -> Levels:
    """Return by which levels slots are rounded, in a sum of whose other numbers these are.

    As many people who weigh 1 sum up to no more than those who weigh as much as one may.
    """
    each = levels.each * levels.weight
    return Levels(RANGE, 1, 1 << (each.bit_length() - 1))


def values(total: Total, levels: Levels) -> NDArray[np.float64]:
    """Return a sum's numbers as those of slots, float64 [n].

    Parameters
    ----------
    levels : by which those of no slot were rounded.
    """
    whole = np.rint(total.sum * (levels.each / levels.range))
    sums: NDArray[np.float64] = whole * (RANGE / levels_of(levels).each)
    return sums


def with_slots(
    vector: Words,
    has: NDArray[np.bool_],
    rows: NDArray[np.floating],
    asked: NDArray[np.bool_],
    levels: Levels,
) -> Words:
    """Return a vector with slots behind its numbers.

    Parameters
    ----------
    has : which classes a person has, bool [classes].
    rows : its rows, [classes, d]; those of classes that it lacks are ignored.
    asked : of which classes rows are added up, bool [classes].
    levels : of the numbers before.
    """
    shown = np.where((has & asked)[:, None], rows, 0.0)
    slots = levels_of(levels).vector(np.concatenate([has, shown.ravel()]), 1)
    shortened = vector[-1] | slots[-1]
    return np.concatenate([vector[:-BESIDE], slots[:-BESIDE], vector[-BESIDE:-1], [shortened]])


def in_sum(total: Total, levels: Levels, classes: int, size: int, most: int) -> tuple[Total, Slots]:
    """Return what a sum over `most` people says without its slots, and what these say.

    Raises
    ------
    ValueError
        If nobody's slots can have led to it.
    """
    first = len(total.sum) - numbers(classes, size)
    sums = values(total, levels)[first:]
    people, rows = np.rint(sums[:classes]).astype(np.int64), sums[classes:].reshape(classes, size)
    if (people < 0).any() or (people > most).any():
        got = f"{people.min()} to {people.max()}"
        raise ValueError(f"people who have a class: got {got}, expected 0 to {most}")
    before = Total(total.mean[:first], total.sum[:first], total.weight, total.shortened)
    return before, Slots(people, rows)


def shown(vector: Words, classes: int, size: int) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Return which classes a person's vector says that it has, and of which it has a row."""
    own = vector[len(vector) - BESIDE - numbers(classes, size) : -BESIDE]
    return own[:classes] > 0, np.logical_or.reduce(
        own[classes:].reshape(classes, size) != 0, axis=1
    )


def again(vector: Words, slots: int, before: Levels, levels: Levels, examples: int) -> Words:
    """Return a person's vector by other levels.

    Parameters
    ----------
    slots : how many numbers of it are slots, behind all others.
    before : by which it was rounded.
    levels : by which it shall be.
    examples : how many samples the person has.
    """
    at, end = len(vector) - BESIDE - slots, vector[-BESIDE:]
    numbers = levels.again(np.concatenate([vector[:at], end]), before, examples)
    old = np.append(vector[at:-BESIDE], [1, end[1]]).astype(np.uint32)
    own = levels_of(levels).again(old, levels_of(before), 1)
    return np.concatenate([numbers[:-BESIDE], own[:-BESIDE], numbers[-BESIDE:]])
