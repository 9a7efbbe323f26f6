"""Lost values: short gaps are interpolated, a slow signal is held."""

from __future__ import annotations

import numpy as np
import pytest

from fedsub_data.preparing.packets import Held, interpolate_gaps

N = np.nan


def test_short_gaps_inside_are_filled_linearly_and_others_stay() -> None:
    signals = np.array([N, 0.0, N, N, 3.0, N, N, N, 7.0, 8.0, N])[:, None]
    filled = interpolate_gaps(signals, 2)
    np.testing.assert_array_equal(signals[:, 0], [N, 0, 1, 2, 3, N, N, N, 7, 8, N])
    np.testing.assert_array_equal(np.flatnonzero(filled), [2, 3])


def test_channels_are_filled_apart_and_rows_counted_once() -> None:
    signals = np.array([[0.0, 5.0], [N, N], [2.0, N], [3.0, 8.0]])
    filled = interpolate_gaps(signals, 1)
    np.testing.assert_array_equal(signals, [[0, 5], [1, N], [2, N], [3, 8]])
    np.testing.assert_array_equal(filled, [False, True, False, False])
    whole = np.full((3, 1), N)
    assert not interpolate_gaps(whole, 9).any()


@pytest.mark.parametrize("cut", [1, 2, 3, 4, 6])
def test_held_values_go_on_over_blocks_until_they_are_too_old(cut: int) -> None:
    values = np.array([N, 60.0, N, N, N, 70.0, N])
    seconds = np.array([0.0, 1, 2, 3, 4, 5, 6])
    held = Held(2.0)
    first = held.carry(values[:cut], seconds[:cut])
    carried = [first, held.carry(values[cut:], seconds[cut:])]
    np.testing.assert_array_equal(np.concatenate(carried), [N, 60, 60, 60, N, 70, 70])
