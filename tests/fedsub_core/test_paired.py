"""Gains on the same samples: scikit-learn's F1, and intervals that hold what they promise."""

from __future__ import annotations

import numpy as np
import pytest
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


def test_one_sample() -> None:
    one = np.array([2])
    assert paired_gain(one, one, np.array([0]), seed=0) == (1, 1, 1)


def test_samples_that_hang_together_are_drawn_together() -> None:
    """Where every 12 windows are right or wrong as one, chance is not told from 0, either."""

    def told(together: int) -> int:
        found = 0
        for seed in range(120):
            own = np.random.default_rng(seed)
            y = np.repeat(np.arange(15) % 3, 12)
            one, other = (
                np.where(np.repeat(own.random(15) < 0.7, 12), y, (y + 1) % 3) for _ in range(2)
            )
            gain = paired_gain(y, one, other, seed, together)
            found += gain.low > 0 or gain.high < 0
        return found

    assert told(together=12) <= 24 < 48 <= told(together=1), "of 120; 15 blocks are few"


def test_blocks_go_round_and_are_fewer_than_the_samples() -> None:
    y, ours, theirs = np.random.default_rng(0).integers(0, 3, (3, 23))
    whole = paired_gain(y, ours, theirs, seed=0, together=1000)
    assert whole == paired_gain(y, ours, theirs, seed=0, together=4) and whole.low < whole.high
    few = slice(0, 4)  # no blocks of four samples: each by itself
    assert paired_gain(y[few], ours[few], theirs[few], 0, 9) == paired_gain(
        y[few], ours[few], theirs[few], 0
    )
