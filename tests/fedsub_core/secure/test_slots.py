"""Slots behind a vector's numbers: everybody counts once, whatever its samples."""

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from fedsub_core.secure import slots
from fedsub_core.secure.keys import Words
from fedsub_core.secure.quantise import Levels

Array = NDArray[Any]
#: Numbers that are weighted by samples, before the slots.
MOVE = np.array([1.0, -1.0], np.float32)


def summed(levels: Levels, numbers: Array) -> Words:
    """Return the sum of as many people's vectors, who moved by MOVE."""
    people = [
        slots.with_slots(levels.vector(MOVE, 10 * (i + 1)), own, levels)
        for i, own in enumerate(numbers)
    ]
    total: Words = np.stack(people).sum(0, dtype=np.uint32)
    return total


@pytest.mark.parametrize("samples", [30, 4000])
def test_slots_add_up_by_person_and_numbers_by_sample(samples: int) -> None:
    levels = Levels.of_people(3, samples, 8.0)
    has = np.array([[1, 1, 0], [1, 0, 0], [1, 1, 0]])
    rows = np.random.default_rng(samples).normal(0, 3, (3, 12))
    total = levels.total(summed(levels, np.concatenate([has, rows], 1)), 3)
    sums = slots.in_sum(total, levels, len(MOVE))
    np.testing.assert_allclose(total.mean[:2], [1, -1], atol=1e-5)
    assert (total.weight, total.shortened, sums[:3].tolist()) == (60, 0, [3, 2, 0])
    np.testing.assert_allclose(sums[3:], rows.sum(0), atol=2e-6)


def test_a_number_beyond_the_range_is_shortened_and_counted() -> None:
    levels, numbers = Levels.of_people(3, 30, 8.0), np.zeros((3, 12))
    numbers[1, 7] = 1e9
    total = levels.total(summed(levels, numbers), 3)
    assert (total.shortened, slots.in_sum(total, levels, 2)[7]) == (1, slots.RANGE)


@pytest.mark.parametrize("move", [MOVE, MOVE[:0]])
def test_slots_are_rounded_again_by_person_and_numbers_by_sample(move: Array) -> None:
    """A round that is repeated may be of other people, of whom one weighs more or less."""
    before, levels = Levels.of_people(4, 300, 8.0), Levels.of_people(3, 40, 8.0)
    examples = 60 if move.size else 1

    def vector(of: Levels) -> Words:
        return slots.with_slots(of.vector(move, examples), np.full(12, 2.5), of)

    again = slots.again(vector(before), move.size, before, levels, examples).astype(np.int32)
    np.testing.assert_allclose(again, vector(levels).astype(np.int32), rtol=1e-4)
