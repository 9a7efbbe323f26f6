"""How long classes last, as training samples show it."""

from dataclasses import replace

import numpy as np
import pytest

from fedsub_client.split_client import SplitClient
from fedsub_client.stays import mean_stay
from fedsub_core.data.card import Card

CARD = Card("toy", "test", ("a", "b"), ("u",), sampling_rate_hz=20.0, window_s=2.0, overlap=0.5)


def person(t: np.ndarray, y: np.ndarray) -> SplitClient:
    x, every = np.zeros((len(y), 1, 40), np.float32), np.arange(len(y))
    return SplitClient("p", x, every, every[:0], y, y[:0], t=t)


@pytest.mark.parametrize("shuffled", [False, True])
def test_mean_of_classes_in_turn(shuffled: bool) -> None:
    """Eight times five seconds; the file need not be in order of time."""
    t, y = np.arange(40.0), np.arange(40) // 5 % 2
    order = np.random.default_rng(3).permutation(40) if shuffled else np.arange(40)
    assert mean_stay(person(t[order], y[order]), CARD) == pytest.approx(39 / 7)


def test_a_gap_shows_no_change() -> None:
    """Nobody knows when in a night a class began."""
    t, y = np.concatenate([np.arange(20.0), 1e5 + np.arange(20.0)]), np.arange(40) // 20
    assert mean_stay(person(t, y), CARD) == 38.0


def test_without_times_or_a_windows_length_nothing_is_known() -> None:
    t, y = np.arange(40.0), np.arange(40) % 2
    assert mean_stay(replace(person(t, y), t=None), CARD) is None
    assert mean_stay(person(100 * t, y), CARD) is None
    assert mean_stay(person(t[:1], y[:1]), CARD) is None
    unknown = replace(CARD, window_s=None, sampling_rate_hz=None)
    assert mean_stay(person(t, y), unknown) is None
