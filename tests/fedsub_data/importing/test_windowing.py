"""Windows of recordings: labels, pauses, rates, recordings that overlap."""

import numpy as np
import pytest

from fedsub_data.importing.dropped import Dropped, Why
from fedsub_data.importing.source import Rows
from fedsub_data.importing.windowing import Cut, Kept, majority, windows

CUT = Cut(rate=10.0, length=10, step=5, purity=0.5, gap_s=None)


def recording(t: np.ndarray, y: int | np.ndarray = 0) -> Rows:
    """A recording of one sine of 0.5 Hz."""
    n = len(t)
    labels = np.broadcast_to(np.asarray(y, np.int64), (n,)).copy()
    x = np.sin(np.pi * t)[:, None].astype(np.float32)
    return Rows("p", np.zeros(n, np.int64), np.arange(n), labels, t.astype(np.float64), x)


def test_the_most_frequent_label_is_a_windows() -> None:
    y = np.array([0, 0, 1, 1, 1, -1, -1, -1, -1, 2])
    label, share = majority(y, np.array([0, 1, 5, 2]), 5)
    # Of windows 0 0 1 1 1; 0 1 1 1 -; - - - - 2; 1 1 1 - -.
    assert label.tolist() == [1, 1, -1, 1]
    assert share.tolist() == [0.6, 0.6, 0.8, 0.6]
    # Of equal ones the least.
    assert majority(np.array([3, 2]), np.array([0]), 2)[0].tolist() == [2]


def test_purity_decides_how_mixed_a_window_may_be() -> None:
    y = np.repeat([0, 1], [13, 17])
    dropped = Dropped()
    pure = Cut(10.0, 10, 5, 1.0, None)
    found = windows([recording(np.arange(30) / 10, y)], pure, Kept(), "p", dropped)
    assert found.t.tolist() == [0.0, 1.5, 2.0] and found.y.tolist() == [0, 1, 1]
    assert dropped.counts == {Why.MIXED: {"p": 2}}


def test_no_window_spans_a_pause() -> None:
    t = np.concatenate([np.arange(15), np.arange(40, 60)]) / 10
    dropped = Dropped()
    found = windows([recording(t)], CUT, Kept(), "p", dropped)
    assert found.t.tolist() == [0.0, 0.5, 4.0, 4.5, 5.0]
    longer = Cut(10.0, 10, 5, 0.5, gap_s=5.0)
    assert len(windows([recording(t)], longer, Kept(), "p", dropped).t) == 11


@pytest.mark.parametrize("rate", [7.0, 10.0, 25.0, 100.0])
def test_other_rates_are_resampled(rate: float) -> None:
    t = np.arange(int(4 * rate) + 1) / rate
    found = windows([recording(t)], CUT, Kept(), "p", Dropped())
    assert found.x.shape == (7, 1, 10)
    expected = np.sin(np.pi * (found.t[:, None] + np.arange(10) / 10))
    np.testing.assert_allclose(found.x[:, 0], expected, atol=0.04)


def test_waves_that_the_rate_cannot_hold_are_averaged_away() -> None:
    """45 Hz, sampled at 10, would look like 5."""
    t = np.arange(1000) / 100
    one = recording(t)
    one.x[:, 0] = np.sin(2 * np.pi * 45 * t)
    found = windows([one], CUT, Kept(), "p", Dropped())
    assert np.abs(found.x).max() < 0.25


def test_rows_of_the_rate_are_taken_as_they_are() -> None:
    """A clock that trembles by a twentieth of a sample moves no value."""
    t = np.arange(20) / 10 + np.where(np.arange(20) % 2, 0.002, -0.002)
    one = recording(t)
    found = windows([one], CUT, Kept(), "p", Dropped())
    assert np.array_equal(found.x[0, 0], one.x[:10, 0])


def test_a_rate_that_is_off_by_little_is_resampled_too() -> None:
    """Of 54 samples a second, taken for 50, a window of 2 s would be one of 1.85."""
    t = np.arange(20 * 54) / 54
    cut = Cut(50.0, 100, 100, 0.5, None)
    found = windows([recording(t)], cut, Kept(), "p", Dropped())
    assert np.allclose(found.t, np.arange(10) * 2.0)
    expected = np.sin(np.pi * (found.t[:, None] + np.arange(100) / 50))
    np.testing.assert_allclose(found.x[:, 0], expected, atol=0.01)


def test_short_holes_are_filled_and_pauses_are_not() -> None:
    one = recording(np.arange(60) / 10)
    one.x[5:8] = np.nan
    one.x[30:45] = np.nan
    found = windows([one], CUT, Kept(interpolate=True), "p", Dropped())
    assert np.isfinite(found.x).all()
    assert found.t.tolist() == [0, 0.5, 1.0, 1.5, 2.0, 4.5, 5.0]
    between = np.sin(np.pi * np.array([0.4, 0.8])).mean()
    np.testing.assert_allclose(found.x[0, 0, 6], between, atol=1e-6)


def test_a_recording_shorter_than_a_window_is_left_over() -> None:
    dropped = Dropped()
    found = windows([recording(np.arange(7) / 10)], CUT, Kept(), "p", dropped)
    assert found.x.shape == (0, 1, 10) and dropped.counts == {Why.LEFT_OVER: {"p": 7}}


def test_what_cannot_be_filled_is_counted() -> None:
    """Before a column's first value and in its pauses; of a dead sensor everything."""
    dropped = Dropped()
    one = recording(np.arange(60) / 10)
    one.x[:2] = np.nan
    one.x[30:45] = np.nan
    found = windows([one], CUT, Kept(interpolate=True), "p", dropped)
    assert found.t[0] == 0.2 and dropped.counts[Why.MISSING] == {"p": 17}
    one.x[:] = np.nan
    assert not len(windows([one], CUT, Kept(interpolate=True), "q", dropped).t)
    assert dropped.counts[Why.MISSING] == {"p": 17, "q": 60}
