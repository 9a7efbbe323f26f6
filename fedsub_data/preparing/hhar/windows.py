"""Windows by time over rows whose rate differs and jitters, from many phones at once."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Samples:
    """Rows of one phone in the file's order.

    Parameters
    ----------
    seconds : float64 [n]
    axes : float64 [n, 3]
    label : int64 [n]
    """

    seconds: Floats
    axes: Floats
    label: Ints

    def __getitem__(self, rows: slice) -> Samples:
        return Samples(self.seconds[rows].copy(), self.axes[rows].copy(), self.label[rows].copy())

    def after(self, earlier: Samples) -> Samples:
        """Return the rows behind `earlier` ones."""
        return Samples(
            np.concatenate([earlier.seconds, self.seconds]),
            np.concatenate([earlier.axes, self.axes]),
            np.concatenate([earlier.label, self.label]),
        )


@dataclass(frozen=True, eq=False)
class Windows:
    """Windows ``[k, k + 1) * window_s`` of one phone, each a run of its rows.

    Parameters
    ----------
    starts : int64 [windows], where each begins in ``samples``; it ends where the next begins.
    second : float64 [windows], when each starts.
    rows : int64 [windows]
    label : int64 [windows], that of the first row.
    mixed : bool [windows], whether labels differ.
    gap : float64 [windows], the longest time without a row, edges included, in seconds.
    """

    samples: Samples
    starts: Ints
    second: Floats
    rows: Ints
    label: Ints
    mixed: NDArray[np.bool_]
    gap: Floats

    def statistics(self) -> Floats:
        """Return the means, standard deviations, minima and maxima, [windows, 12]."""
        axes, rows = self.samples.axes, self.rows[:, None]
        mean = np.add.reduceat(axes, self.starts) / rows
        deviation = axes - np.repeat(mean, self.rows, axis=0)
        std = np.sqrt(np.add.reduceat(deviation**2, self.starts) / rows)
        low, high = np.minimum.reduceat(axes, self.starts), np.maximum.reduceat(axes, self.starts)
        return np.concatenate([mean, std, low, high], axis=1)

    def resampled(self, which: int, at: Floats) -> Floats:
        """Return window `which` linearly between its rows, [3, len(at)], `at` seconds into it."""
        own = slice(self.starts[which], self.starts[which] + self.rows[which])
        seconds = self.samples.seconds[own] - self.second[which]
        order = np.argsort(seconds, kind="stable")
        axes = self.samples.axes[own][order]
        return np.stack([np.interp(at, seconds[order], axis) for axis in axes.T])


def _numbers(seconds: Floats, window_s: float) -> Floats:
    # In whole milliseconds, the clock's unit: 0.3 s must not fall into the window before.
    numbers: Floats = np.floor_divide(np.rint(seconds * 1000), np.rint(window_s * 1000))
    return numbers


def split(samples: Samples, window_s: float) -> tuple[Windows | None, Samples]:
    """Return the windows that are complete, and the rows of the last one, which may go on.

    A window is complete where the next row belongs to another one.
    """
    number = _numbers(samples.seconds, window_s)
    new = np.flatnonzero(np.diff(number)) + 1
    if not len(new):
        return None, samples
    last = int(new[-1])
    return whole(samples[:last], window_s), samples[last:]


def whole(samples: Samples, window_s: float) -> Windows:
    """Return the windows of `samples`, the last one included."""
    number = _numbers(samples.seconds, window_s)
    starts = np.flatnonzero(np.diff(number, prepend=-np.inf)).astype(np.int64)
    rows = np.diff(starts, append=len(number))
    second = number[starts] * np.rint(window_s * 1000) / 1000
    step = np.diff(samples.seconds, prepend=0.0)
    step[starts] = samples.seconds[starts] - second
    longest = np.maximum.reduceat(np.abs(step), starts)
    to_end = second + window_s - samples.seconds[starts + rows - 1]
    low = np.minimum.reduceat(samples.label, starts)
    high = np.maximum.reduceat(samples.label, starts)
    return Windows(
        samples=samples,
        starts=starts,
        second=second,
        rows=rows,
        label=samples.label[starts],
        mixed=low != high,
        gap=np.maximum(longest, to_end),
    )
