"""Standardisation: moments add up, hold at awkward numbers, and follow the mode."""

import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedsub_core.data.standardise import Moments, apply, median_pool, moments, pool, scaling
from fedsub_core.errors import DataError


def draw(shape: tuple[int, ...], seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(3.0, 2.0, shape).astype(np.float32)


def test_moments_are_sums_per_feature() -> None:
    m = moments(np.array([[1, 10], [2, 20], [6, 30]], np.float32))
    assert m.count == 3
    np.testing.assert_array_equal(m.sum, [9, 60])
    np.testing.assert_array_equal(m.sumsq, [41, 1400])
    s = scaling(m)
    np.testing.assert_allclose(s.mean, [3, 20])
    np.testing.assert_allclose(s.std, [np.sqrt(14 / 3), np.sqrt(200 / 3)], rtol=1e-7)


def test_raw_windows_count_every_time_step_per_channel() -> None:
    x = draw((5, 3, 7))
    m = moments(x)
    assert (m.count, m.sum.dtype, m.sum.shape) == (35, np.float64, (3,))
    np.testing.assert_allclose(m.sum, x.astype(np.float64).sum(axis=(0, 2)), rtol=1e-12)
    scaled = apply(scaling(m), x)
    assert (scaled.shape, scaled.dtype) == (x.shape, np.float32)
    np.testing.assert_allclose(scaled.mean(axis=(0, 2)), 0, atol=1e-6)
    np.testing.assert_allclose(scaled.std(axis=(0, 2)), 1, atol=1e-6)


@given(st.lists(st.integers(1, 30), min_size=1, max_size=6), st.integers(0, 99), st.booleans())
def test_pooling_equals_one_client_holding_all(sizes: list[int], seed: int, raw: bool) -> None:
    x = draw((sum(sizes), 4, 3) if raw else (sum(sizes), 4), seed)
    parts = [moments(p) for p in np.split(x, np.cumsum(sizes)[:-1])]
    together, pooled = moments(x), pool(parts)
    assert pooled.count == together.count
    np.testing.assert_allclose(pooled.sum, together.sum, rtol=1e-12)
    np.testing.assert_allclose(pooled.sumsq, together.sumsq, rtol=1e-12)
    shuffled = pool([parts[i] for i in np.random.default_rng(seed).permutation(len(parts))])
    np.testing.assert_array_equal(shuffled.sum, pooled.sum)
    np.testing.assert_array_equal(shuffled.sumsq, pooled.sumsq)


def test_medians_over_people_are_near_the_pool_of_people_who_are_alike() -> None:
    parts = [moments(draw((400, 3), seed)) for seed in range(9)]
    robust, plain = scaling(median_pool(parts)), scaling(pool(parts))
    np.testing.assert_allclose(robust.mean, plain.mean, atol=0.1)
    np.testing.assert_allclose(robust.std, plain.std, rtol=0.1)
    one = median_pool(parts[:1])
    np.testing.assert_allclose(scaling(one).std, scaling(parts[0]).std, rtol=1e-6)


@pytest.mark.parametrize("factor", [1e8, 1e20])
def test_one_that_lies_cannot_turn_the_medians(factor: float) -> None:
    parts = [moments(draw((400, 3), seed)) for seed in range(9)]
    honest = scaling(median_pool(parts))
    liar = Moments(400, parts[0].sum, parts[0].sumsq * factor)
    robust, plain = scaling(median_pool([*parts, liar])), scaling(pool([*parts, liar]))
    np.testing.assert_allclose(robust.std, honest.std, rtol=0.1)
    assert (plain.std > 100 * honest.std).all()


@pytest.mark.parametrize("value", [1e3, -1e12])
def test_one_whose_values_lie_elsewhere_cannot_turn_the_medians(value: float) -> None:
    parts = [moments(draw((400, 3), seed)) for seed in range(9)]
    honest, far = scaling(median_pool(parts)), np.full(3, value)
    elsewhere = Moments(400, 400 * far, 400 * far**2)
    robust, plain = scaling(median_pool([*parts, elsewhere])), scaling(pool([*parts, elsewhere]))
    np.testing.assert_allclose(robust.mean, honest.mean, atol=0.1)
    np.testing.assert_allclose(robust.std, honest.std, rtol=0.1)
    assert (np.abs(plain.mean) > 10 * honest.std).all()


def test_medians_of_features_without_spread_or_between_people() -> None:
    flat = scaling(median_pool([moments(np.full((5, 1), 7.0, np.float32))] * 3))
    assert (flat.mean[0], flat.std[0]) == (7.0, 1.0)
    # Everybody's own value: what differs between people is spread, too.
    between = median_pool([moments(np.full((5, 1), v, np.float32)) for v in (-1.0, 0.0, 1.0)])
    assert scaling(between).std[0] == pytest.approx(1.0)


@pytest.mark.parametrize("value", [0.0, 1.0, -0.1, 1e-30, 3e38, 1234.567])
def test_a_feature_without_spread_is_only_centred(value: float) -> None:
    x = np.full((1001, 1), value, np.float32)
    s = scaling(moments(x))
    assert s.std[0] == 1
    np.testing.assert_allclose(apply(s, x), 0, atol=abs(value) * 1e-6)


def test_rounding_of_constants_is_never_taken_for_spread() -> None:
    values = np.random.default_rng(0).uniform(-1e4, 1e4, 500).astype(np.float32)
    pooled = pool([moments(np.tile(values, (n, 1))) for n in (3, 70, 999)])
    np.testing.assert_array_equal(scaling(pooled).std, 1)


@pytest.mark.parametrize("ratio", [1e-2, 1e-4, 1e-5])
def test_a_small_spread_around_a_huge_mean(ratio: float) -> None:
    exact = 1e6 * (1 + ratio * np.random.default_rng(1).normal(size=(20_000, 1)))
    x = exact.astype(np.float32)
    s = scaling(moments(x))
    np.testing.assert_allclose(s.std[0], x.astype(np.float64).std(), rtol=1e-3)
    scaled = apply(s, x)
    # The mean is kept in float32: what remains of it is its rounding, in units of the spread.
    assert abs(scaled.mean(dtype=np.float64)) < 6e-8 / ratio * 1.1
    np.testing.assert_allclose(scaled.std(dtype=np.float64), 1, rtol=1e-3)


@pytest.mark.parametrize("scale", [1e-30, 1e30])
def test_extreme_scales_stay_finite(scale: float) -> None:
    x = (draw((500, 2)).astype(np.float64) * scale).astype(np.float32)
    scaled = apply(scaling(moments(x)), x)
    np.testing.assert_allclose(scaled.std(axis=0), 1, rtol=1e-5)


def test_what_cannot_be_pooled_is_refused() -> None:
    with pytest.raises(DataError, match=r"\[2, 3\]"):
        pool([moments(draw((4, 2))), moments(draw((4, 3)))])
    with pytest.raises(DataError, match="0 clients"):
        pool([])
    with pytest.raises(DataError, match="no sample"):
        scaling(Moments(0, np.zeros(2), np.zeros(2)))


def test_moments_of_bytes_are_those_of_floats() -> None:
    x = np.random.default_rng(0).integers(0, 256, (700, 3, 4, 5), np.uint8)
    ours, theirs = moments(x), moments(x.astype(np.float32))
    assert ours.count == theirs.count == 700 * 20
    np.testing.assert_array_equal(ours.sum, theirs.sum)
    np.testing.assert_array_equal(ours.sumsq, theirs.sumsq)


def test_moments_of_bytes_take_no_copy_of_all() -> None:
    x = np.zeros((4096, 3, 32, 32), np.uint8)
    tracemalloc.start()
    moments(x)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most < x.nbytes / 2


def test_token_ids_have_no_moments() -> None:
    m = moments(np.ones((5, 7), np.int32))
    assert (m.count, m.sum.size, m.sumsq.size) == (5, 0, 0)
