"""Weighted sums that no order and no cut into parts changes."""

from math import fsum

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from fedsub_core.exact_sums import BLOCK, Sums, greatest, squared_length
from fedsub_core.exact_sums import add_up as add_up_each

Terms = list[tuple[NDArray[np.float32], float]]


def add_up(terms: Terms, size: int, bound: float) -> Sums:
    """Return the sum of one tensor."""
    return add_up_each([([values], by) for values, by in terms], [size], [bound])[0]


def terms_of(seed: int, people: int, spread: int) -> Terms:
    """Numbers of sizes from 2^-spread to 2^spread, with weights that are 1 together."""
    stream = np.random.default_rng(seed)
    shape = people, 5
    sizes = np.exp2(stream.integers(-spread, spread + 1, shape))
    values = (stream.normal(size=shape) * sizes).astype(np.float32)
    weights = stream.integers(1, 50, people)
    return [(own, float(w / weights.sum())) for own, w in zip(values, weights, strict=True)]


@given(st.integers(0, 2**32), st.integers(1, 40), st.integers(0, 60), st.data())
def test_no_order_and_no_parts_change_a_bit(
    seed: int, people: int, spread: int, data: st.DataObject
) -> None:
    terms = terms_of(seed, people, spread)
    bound = fsum(by * greatest(values) for values, by in terms)
    whole = add_up(terms, 5, bound)
    other = data.draw(st.permutations(terms))
    cut = data.draw(st.integers(0, people))
    assert np.array_equal(whole, add_up(other[:cut], 5, bound) + add_up(other[cut:], 5, bound))
    exact = [fsum(float(v[i]) * w for v, w in terms) for i in range(5)]
    assert np.abs(whole - exact).max() <= people * bound * 2.0**-50


def test_a_plain_sum_depends_on_the_order() -> None:
    """Else the test above could not fail."""
    terms = terms_of(0, 40, 10)
    plain = np.zeros((2, 5))
    for row, order in zip(plain, (terms, terms[::-1]), strict=True):
        for values, weight in order:
            row += values.astype(np.float64) * weight
    assert not np.array_equal(plain[0], plain[1])


@pytest.mark.parametrize("value", [0.0, 1.0, -1.0, 2.0**-149, 3.0e38, -3.4028235e38, 1e6])
def test_what_all_have_is_its_mean(value: float) -> None:
    """Also at the bound, of powers of two, and of the smallest and largest float32."""
    values = np.full(3, value, np.float32)
    third = [(values, 0.25), (values, 0.5), (values, 0.25)]
    assert add_up(third, 3, greatest(values)).tolist() == [float(values[0])] * 3


def test_a_small_number_beside_a_large_one_is_as_in_float32() -> None:
    terms = [(np.array([1e6, 1e-6], np.float32), 0.5)] * 2
    assert add_up(terms, 2, 1e6).astype(np.float32)[1] == pytest.approx(1e-6, rel=1e-3)


def test_each_tensor_has_a_unit_and_a_sum_of_its_own_however_long() -> None:
    long = np.random.default_rng(0).normal(size=(3, BLOCK)).astype(np.float32)
    small = np.array(1e-9, np.float32)
    terms: list[tuple[list[NDArray[np.float32]], float]]
    terms = [([long, small, long[:0]], 0.25), ([2 * long, small, long[:0]], 0.75)]
    sums = add_up_each(terms, [long.size, 1, 0], [2 * greatest(long), 1e-9, 0.0])
    assert np.allclose(sums[0], 1.75 * long.ravel().astype(float), rtol=0, atol=1e-13)
    assert sums[1] == pytest.approx(1e-9, rel=1e-12) and sums[2].shape == (0,)


def test_lengths_and_sizes() -> None:
    values, begun = np.array([[3.0, 0.0]], np.float32), np.array([[0.0, 4.0]], np.float32)
    assert squared_length(values, begun) == 25
    assert greatest(values - begun) == 4 and greatest(values[:0]) == 0
