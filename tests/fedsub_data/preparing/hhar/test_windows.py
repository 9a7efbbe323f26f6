"""Windows by time over rows of any rate."""

import numpy as np

from fedsub_data.preparing.hhar.windows import Samples, split, whole


def samples(seconds: list[float], label: list[int] | None = None) -> Samples:
    time = np.array(seconds)
    labels = np.zeros(len(time), np.int64) if label is None else np.array(label)
    return Samples(time, np.stack([time, -time, 0 * time], axis=1), labels)


def test_windows_are_multiples_of_their_length_and_know_their_longest_gap() -> None:
    windows = whole(samples([1.1, 1.5, 1.9, 2.0, 2.3, 5.25], [0, 0, 0, 1, 2, 1]), 1.0)
    np.testing.assert_array_equal(windows.starts, [0, 3, 5])
    np.testing.assert_array_equal(windows.second, [1, 2, 5])
    np.testing.assert_array_equal(windows.rows, [3, 2, 1])
    np.testing.assert_array_equal(windows.label, [0, 1, 1])
    np.testing.assert_array_equal(windows.mixed, [False, True, False])
    np.testing.assert_allclose(windows.gap, [0.4, 0.7, 0.75])


def test_a_boundary_in_milliseconds_belongs_to_the_window_that_it_starts() -> None:
    windows = whole(samples([0.3, 0.59, 0.6, 0.7]), 0.3)
    np.testing.assert_array_equal(windows.rows, [2, 2])
    np.testing.assert_allclose(windows.second, [0.3, 0.6])


def test_the_last_window_stays_open() -> None:
    windows, left = split(samples([1.1, 1.5, 2.0, 2.3]), 1.0)
    assert windows is not None
    np.testing.assert_array_equal(windows.second, [1])
    np.testing.assert_array_equal(left.seconds, [2.0, 2.3])
    none, left = split(left, 1.0)
    assert none is None
    np.testing.assert_array_equal(left.after(samples([1.9])).seconds, [1.9, 2.0, 2.3])


def test_resampling_sorts_rows_that_arrived_out_of_order() -> None:
    windows = whole(samples([4.0, 4.5, 4.25, 4.75]), 1.0)
    at = np.array([0.0, 0.125, 0.5, 0.7, 0.9])
    np.testing.assert_allclose(windows.resampled(0, at)[0], [4, 4.125, 4.5, 4.7, 4.75])
    assert windows.gap[0] == 0.5
