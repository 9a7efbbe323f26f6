"""Gains on the same samples: scikit-learn's F1, and intervals that hold what they promise."""

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import norm
from sklearn.metrics import f1_score

from fedsub_core.paired import paired_gain


def test_the_difference_is_that_of_macro_f1() -> None:
    stream = np.random.default_rng(0)
    for _ in range(20):
        y, ours, theirs = stream.integers(0, 4, (3, 30))
        found = paired_gain(y, ours, theirs, seed=1)
        expected = f1_score(y, ours, average="macro") - f1_score(y, theirs, average="macro")
        assert found.mean == pytest.approx(expected)
        assert found.low <= found.mean <= found.high


def test_equal_predictions_gain_nothing_for_certain() -> None:
    y = np.arange(12) % 3
    assert paired_gain(y, y[::-1].copy(), y[::-1].copy(), seed=0) == (0, 0, 0)
    few = y[:4]  # of which nothing is told, equal or not
    assert paired_gain(few, few, few, seed=0) == (0, -1, 1)


def test_a_clear_gain_is_told_from_0_and_chance_is_not() -> None:
    stream = np.random.default_rng(1)
    y = stream.integers(0, 3, 200)
    good = np.where(stream.random(200) < 0.9, y, (y + 1) % 3)
    poor = np.where(stream.random(200) < 0.6, y, (y + 1) % 3)
    assert paired_gain(y, good, poor, seed=0).low > 0.1
    assert paired_gain(y, poor, good, seed=0).high < -0.1
    told = 0
    for seed in range(60):
        own = np.random.default_rng(seed)
        one, other = (np.where(own.random(80) < 0.7, y[:80], (y[:80] + 1) % 3) for _ in range(2))
        gain = paired_gain(y[:80], one, other, seed)
        told += gain.low > 0 or gain.high < 0
    assert told <= 8, "at 95 % some 3 of 60"


def test_few_samples_tell_of_no_spread() -> None:
    y = np.array([2, 1, 0, 2])
    assert paired_gain(y[:1], y[:1], np.array([0]), seed=0) == (1, -1, 1)
    assert paired_gain(y, y, (y + 1) % 3, seed=0) == (1, -1, 1)


def overlapping(
    stream: np.random.Generator, n: int, together: int, share: float
) -> NDArray[np.bool_]:
    """Return which of `n` windows of a moving signal are right, about a `share` of them."""
    signal = stream.normal(size=n + together - 1)
    mean = np.convolve(signal, np.ones(together), "valid") / together**0.5
    found: NDArray[np.bool_] = mean < norm.ppf(share)
    return found


@pytest.mark.parametrize(("n", "together"), [(10, 1), (60, 1), (40, 2), (150, 12), (40, 12)])
def test_chance_is_told_from_0_about_as_often_as_it_says(n: int, together: int) -> None:
    """Two models that are equally good, right on windows of which the next share a part."""
    y, told, times = np.repeat(np.arange(3), -(-n // 3))[:n], 0, 150
    for seed in range(times):
        stream = np.random.default_rng(seed)
        one, other = (
            np.where(overlapping(stream, n, together, 0.7), y, (y + 1) % 3) for _ in range(2)
        )
        gain = paired_gain(y, one, other, seed, together)
        told += gain.low > 0 or gain.high < 0
    assert told <= 0.11 * times, "95 % intervals: some 5 %"


def test_windows_that_overlap_are_less_news_than_so_many_others() -> None:
    stream = np.random.default_rng(3)
    y = np.arange(150) % 3
    one, other = (
        np.where(overlapping(stream, 150, 12, share), y, (y + 1) % 3) for share in (0.9, 0.7)
    )
    widths = [
        found.high - found.low
        for together in (1, 2, 12)
        for found in [paired_gain(y, one, other, 0, together)]
    ]
    assert widths[0] < widths[1] < widths[2]


def test_blocks_go_round_and_are_fewer_than_the_samples() -> None:
    y, ours, theirs = np.random.default_rng(0).integers(0, 3, (3, 23))
    for together in (2, 4, 1000):
        found = paired_gain(y, ours, theirs, seed=0, together=together)
        assert -1 <= found.low < found.mean < found.high <= 1
