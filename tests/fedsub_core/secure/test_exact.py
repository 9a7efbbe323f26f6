"""Numbers of any size that people add up under masks, to the bit."""

import math

import numpy as np
import pytest

from fedsub_core.secure.exact import LARGEST, LIMBS, MOST_PEOPLE, numbers_of, words_of


def test_sums_are_rounded_once_whatever_the_sizes() -> None:
    """A sensor may count in millionths of a tesla, another in pascal; float sums would round."""
    rng = np.random.default_rng(4)
    sizes = 10.0 ** rng.integers(-76, 30, 50)
    each = rng.normal(size=(20, 50)) * sizes
    each[3] = -each[2]
    words = np.zeros(50 * LIMBS, np.uint32)
    for own in each:
        words += words_of(own)
    assert numbers_of(words).tolist() == [math.fsum(column) for column in each.T.tolist()]


@pytest.mark.parametrize("number", [0.0, -0.0, 1.0, -1.0, 2.0**-320, -(2.0**-320), 1e30, -1e30])
def test_a_number_comes_back(number: float) -> None:
    assert numbers_of(words_of(np.array([number]))).tolist() == [number]


def test_what_is_below_the_last_bit_is_rounded() -> None:
    found = numbers_of(words_of(np.array([2.0**-322, 3 * 2.0**-322, -(2.0**-400)])))
    assert found.tolist() == [0.0, 2.0**-320, 0.0]


@pytest.mark.parametrize("sign", [1, -1])
def test_as_many_people_as_there_may_be_overflow_nothing(sign: int) -> None:
    largest = sign * math.nextafter(LARGEST, 0)
    words = words_of(np.array([largest]))
    assert words.max() < 2**32 // MOST_PEOPLE
    everybody = (words.astype(np.uint64) * MOST_PEOPLE).astype(np.uint32)
    assert numbers_of(everybody).tolist() == [largest * MOST_PEOPLE]


@pytest.mark.parametrize("number", [float("nan"), float("inf"), -float("inf"), LARGEST, -LARGEST])
def test_what_has_no_words_is_refused(number: float) -> None:
    with pytest.raises(ValueError, match=r"expected below 5\.5"):
        words_of(np.array([1.0, number]))
