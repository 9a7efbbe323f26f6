"""Noise on sums: whole, as large as said, never less than nothing, and accounted for."""

import numpy as np
import pytest

from fedsub_core.accounting import spent_epsilon
from fedsub_core.closed_form.noise import noisy, sensitivity
from fedsub_core.closed_form.sums import UNIT, Statistics, statistics
from fedsub_core.errors import ConfigError

FEATURES, CLASSES = 40, 3


def _sums(samples: int = 200) -> tuple[Statistics, np.ndarray, np.ndarray]:
    stream = np.random.default_rng(0)
    x = stream.integers(-UNIT, UNIT, (samples, FEATURES)) / UNIT
    y = stream.integers(0, CLASSES, samples)
    return statistics(x, y, CLASSES), x, y


def test_no_sample_moves_sums_by_more() -> None:
    stream = np.random.default_rng(1)
    one = np.vstack([stream.integers(-UNIT, UNIT, FEATURES) / UNIT, -np.ones(FEATURES)])
    for x in one:
        of = statistics(x[None], np.array([1]), CLASSES)
        moved = np.hypot(np.linalg.norm(of.gram / UNIT**2), np.linalg.norm(of.cross / UNIT))
        assert moved <= sensitivity(FEATURES) * (1 + 1e-12)
    assert moved == pytest.approx(sensitivity(FEATURES))  # all at -1: no more is possible


@pytest.mark.parametrize("multiplier", [0.1, 1.0])
def test_they_stay_sums_that_could_be(multiplier: float) -> None:
    sums, x, y = _sums()
    for seed in range(5):
        hidden = noisy(sums, multiplier, np.random.default_rng(seed))
        assert hidden.gram.dtype == np.int64 and hidden.cross.dtype == np.int64
        added = hidden.square - sums.square
        assert np.linalg.eigvalsh(added).min() > -1e-6 * np.abs(added).max()
        off = added[np.tril_indices(FEATURES + 1, -1)]
        assert off.std() == pytest.approx(multiplier * sensitivity(FEATURES), rel=0.1)
        others = hidden - statistics(x[:20], y[:20], CLASSES)
        assert np.linalg.eigvalsh(others.square).min() > 0


def test_the_same_stream_gives_the_same_release_and_none_changes_nothing() -> None:
    sums, _, _ = _sums()
    first, again, other = (noisy(sums, 1.0, np.random.default_rng(s)) for s in (1, 1, 2))
    np.testing.assert_array_equal(first.gram, again.gram)
    assert (first.gram != other.gram).any()
    assert noisy(sums, 0.0, np.random.default_rng(1)) is sums


def test_epsilon() -> None:
    # Balle and Wang (ICML 2018): what the best bound says at delta 1e-5 for this noise is 4.377.
    assert 4.377 < spent_epsilon(1.0, 1, 1e-5) < 4.9
    assert spent_epsilon(1.0, 0, 1e-5) == 0
    assert spent_epsilon(1.0, 4, 1e-5) == pytest.approx(spent_epsilon(0.5, 1, 1e-5), rel=0.02)
    with pytest.raises(ConfigError, match="delta: got 1"):
        spent_epsilon(1.0, 1, 1.0)
