"""Statistics are whole numbers: adding and taking away is exact, in any order and any parts."""

import numpy as np
import pytest

from fedsub_core.closed_form.grids import packed
from fedsub_core.closed_form.sums import (
    GREATEST,
    UNIT,
    Statistics,
    restored,
    rounded,
    statistics,
    total,
)

CLASSES, FEATURES = 4, 11


def _person(seed: int, samples: int = 50) -> tuple[np.ndarray, np.ndarray]:
    stream = np.random.default_rng(seed)
    x = stream.integers(-UNIT, UNIT, (samples, FEATURES)) / np.float32(UNIT)
    return x.astype(np.float32), stream.integers(0, CLASSES, samples)


def _same(a: Statistics, b: Statistics) -> None:
    np.testing.assert_array_equal(a.gram, b.gram)
    np.testing.assert_array_equal(a.cross, b.cross)


def test_they_are_the_products_of_whole_levels() -> None:
    x, y = _person(0)
    of = statistics(x, y, CLASSES)
    phi = np.column_stack([np.full(len(x), UNIT), (x * UNIT).astype(np.int64)])
    np.testing.assert_array_equal(of.gram, (phi.T @ phi)[np.tril_indices(FEATURES + 1)])
    for label in range(CLASSES):
        np.testing.assert_array_equal(of.cross[label], phi[y == label].sum(0))
    np.testing.assert_array_equal(of.counts, np.bincount(y, minlength=CLASSES))
    np.testing.assert_array_equal(of.square, (phi / UNIT).T @ (phi / UNIT))
    assert packed(FEATURES) == len(of.gram)


def test_data_in_ten_parts_are_all_at_once() -> None:
    x, y = _person(1, 10_007)
    parts = np.array_split(np.arange(len(x)), 10)
    _same(total([statistics(x[p], y[p], CLASSES) for p in parts]), statistics(x, y, CLASSES))


def test_order_of_people_changes_nothing_and_who_is_forgotten_was_never_there() -> None:
    people = [statistics(*_person(seed), CLASSES) for seed in range(5)]
    everybody = total(people)
    _same(total(people[::-1]), everybody)
    _same(everybody - people[2], total([*people[:2], *people[3:]]))


@pytest.mark.parametrize("greatest", [0, 1, GREATEST, GREATEST + 1, 2**40 + 12345])
def test_16_bits_are_off_by_no_more_than_the_half_of_what_was_cut(greatest: int) -> None:
    stream = np.random.default_rng(greatest)
    values = np.append(stream.integers(-greatest, greatest + 1, 999), [greatest, -greatest])
    sent, shift = rounded(values)
    assert sent.dtype == np.int16 and np.abs(sent.astype(int)).max() <= GREATEST
    assert np.abs(restored(sent, shift) - values).max() <= (1 << shift) / 2
    assert (1 << shift) <= max(greatest / GREATEST * 2.0001, 1)
