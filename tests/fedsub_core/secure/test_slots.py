"""Slots of classes behind a vector's numbers: everybody counts once, whatever its samples."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from fedsub_core.secure import slots
from fedsub_core.secure.keys import Words
from fedsub_core.secure.quantise import Levels

Array = NDArray[Any]
CLASSES, SIZE = 3, 4
ALL = np.ones(CLASSES, np.bool_)


def summed(levels: Levels, has: Array, rows: Array, asked: Array) -> Words:
    """Return the sum of as many people's vectors, who moved two numbers by 1 and -1."""
    move = np.array([1.0, -1.0], np.float32)
    people = [
        slots.with_slots(levels.vector(move, 10 * (i + 1)), h, r, asked, levels)
        for i, (h, r) in enumerate(zip(has, rows, strict=True))
    ]
    total: Words = np.stack(people).sum(0, dtype=np.uint32)
    return total


@pytest.mark.parametrize("samples", [30, 4000])
def test_rows_add_up_by_person_and_numbers_by_sample(samples: int) -> None:
    stream = np.random.default_rng(samples)
    levels = Levels.of_people(3, samples, 8.0)
    has = np.array([[1, 1, 0], [1, 0, 0], [1, 1, 0]], np.bool_)
    rows = stream.normal(0, 3, (3, CLASSES, SIZE))
    total = levels.total(summed(levels, has, rows, ALL), 3)
    before, found = slots.in_sum(total, levels, CLASSES, SIZE, 3)
    np.testing.assert_allclose(before.mean, [1, -1], atol=1e-5)
    assert (before.weight, before.shortened, found.people.tolist()) == (60, 0, [3, 2, 0])
    expected = (rows * has[:, :, None]).sum(0)
    np.testing.assert_allclose(found.rows, expected, atol=2e-6)


def test_a_row_that_was_not_asked_for_is_in_no_sum() -> None:
    levels, rows = Levels.of_people(3, 30, 8.0), np.full((3, CLASSES, SIZE), 5.0)
    asked = np.array([True, False, False])
    total = levels.total(summed(levels, np.ones((3, CLASSES), np.bool_), rows, asked), 3)
    _, found = slots.in_sum(total, levels, CLASSES, SIZE, 3)
    assert found.people.tolist() == [3, 3, 3]
    assert found.rows[:, 0].tolist() == [15.0, 0.0, 0.0]


def test_a_number_beyond_the_range_is_shortened_and_counted() -> None:
    levels, rows = Levels.of_people(3, 30, 8.0), np.zeros((3, CLASSES, SIZE))
    rows[1, 2, 3] = 1e9
    total = levels.total(summed(levels, np.ones((3, CLASSES), np.bool_), rows, ALL), 3)
    before, found = slots.in_sum(total, levels, CLASSES, SIZE, 3)
    assert (before.shortened, found.rows[2, 3]) == (1, slots.RANGE)


def test_fewer_people_than_none_are_refused() -> None:
    levels = Levels.of_people(3, 30, 8.0)
    wrong = summed(levels, np.ones((3, CLASSES), np.bool_), np.zeros((3, CLASSES, SIZE)), ALL)
    wrong[2] = np.uint32(2**32 - slots.levels_of(levels).each)
    with pytest.raises(ValueError, match="people who have a class: got -"):
        slots.in_sum(levels.total(wrong, 3), levels, CLASSES, SIZE, 3)


def test_slots_are_rounded_again_by_person_and_numbers_by_sample() -> None:
    """A round that is repeated may be of other people, of whom one weighs more or less."""
    before, levels = Levels.of_people(4, 300, 8.0), Levels.of_people(3, 40, 8.0)
    has, rows = np.ones(CLASSES, np.bool_), np.full((CLASSES, SIZE), 2.5)
    move = np.array([1.0, -1.0], np.float32)

    def vector(of: Levels) -> Words:
        return slots.with_slots(of.vector(move, 60), has, rows, ALL, of)

    own = slots.numbers(CLASSES, SIZE)
    found = slots.again(vector(before), own, before, levels, 60).astype(np.int32)
    expected = vector(levels).astype(np.int32)
    np.testing.assert_allclose(found, expected, rtol=1e-4)
