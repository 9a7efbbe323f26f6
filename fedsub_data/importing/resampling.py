"""Resampling: a recording's rows are taken as they are, averaged, or interpolated."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from fedsub_core.errors import DataError
from fedsub_core.spelling import spelt
from fedsub_data.importing.resampled import DRIFT, percent, rows_of_mean
from fedsub_data.importing.source import Rows

Array = NDArray[np.float64]
#: How far a row may lie from its place among the rows around, in samples, for rows to be taken as
#: they are. A lost row moves its neighbours by a third at least.
_JITTER = 0.33
#: Rows on either side by which a row's place is known: clocks drift.
_AROUND = 64
#: Steps so near to one sample need no such look.
_EVEN = 0.1
#: So many samples may be made of one row: unless a rate is given, and if one is.
_UNASKED, _ASKED = 2.0, 100.0


def at_rate(rows: Rows, rate: float) -> tuple[Array, NDArray[np.float32], NDArray[np.int64]]:
    """Return times, values and labels with `rate` samples a second.

    Rows that come with that rate are taken as they are. Others are interpolated linearly, after an
    average where there are many more of them; a sample's label is its nearest row's.
    """
    t = rows.times
    if len(t) < 2 or _steady(t, rate):
        return t, rows.x, rows.y
    width = rows_of_mean(len(t) - 1, float(t[-1] - t[0]), rate)
    x = _averaged(rows.x, width) if width > 1 else rows.x
    # The last sample must not be lost to a rounding error, nor to a clock that trembles.
    grid = t[0] + np.arange(int((t[-1] - t[0]) * rate + _JITTER) + 1) / rate
    values = np.empty((len(grid), x.shape[1]), np.float32)
    for i in range(x.shape[1]):
        values[:, i] = np.interp(grid, t, x[:, i])
    after = np.clip(np.searchsorted(t, grid), 1, len(t) - 1)
    nearest = after - (grid - t[after - 1] < t[after] - grid)
    return grid, values, rows.y[nearest]


def _steady(t: Array, rate: float) -> bool:
    """Return whether rows lie where samples of the rate do, but for a clock that trembles."""
    steps, samples = len(t) - 1, float(t[-1] - t[0]) * rate
    if abs(samples - steps) > max(DRIFT * steps, 2 * _JITTER):
        return False
    if (np.abs(np.diff(t) * rate - 1) <= _EVEN).all():
        return True
    late = ((t - t[0]) * rate - np.arange(len(t)))[:, None]
    return bool((np.abs(late - _averaged(late, 2 * _AROUND)) <= _JITTER).all())


def _averaged(x: NDArray[np.floating], width: int) -> NDArray[np.float32]:
    """Return the mean of about `width` rows around each, of fewer at the ends.

    As many on either side: else values would move in time.
    """
    sums = np.concatenate((np.zeros((1, x.shape[1])), np.cumsum(x, axis=0, dtype=np.float64)))
    at = np.arange(len(x))
    side = np.minimum(np.minimum(at, len(x) - 1 - at), width // 2)
    begin, end = at - side, at + side + 1
    mean: NDArray[np.float64] = (sums[end] - sums[begin]) / (end - begin)[:, None]
    return mean.astype(np.float32)


def check_upsampling(
    stretches: Sequence[Rows], rate: float, length: int, asked: bool, lost: int
) -> None:
    """Refuse a recording of which most samples would be made up.

    Parameters
    ----------
    stretches : the recording's, between its pauses; those too short for a window do not count.
    length : a window's samples.
    asked : whether the rate was given.
    lost : rows of the person that were dropped for a missing value.

    Raises DataError; it names person, both rates, and the option.
    """
    spans = [float(stretch.t[-1] - stretch.t[0]) for stretch in stretches if stretch.t is not None]
    long = [
        (len(stretch) - 1, span)
        for stretch, span in zip(stretches, spans, strict=True)
        if round(span * rate) + 1 >= length
    ]
    own = sum(steps for steps, _ in long) / seconds if (seconds := sum(s for _, s in long)) else 0
    most = _ASKED if asked else _UNASKED
    if not own or own * most >= rate * (1 - DRIFT):
        return
    got = f"person {stretches[0].person!r}: got {own:.4g} samples a second"
    made = f"{percent(1 - own / rate)} of points would be interpolated"
    if asked:
        raise DataError(
            f"{got}, {spelt('rate')} asks for {rate:g}: {made}; expected a hundredth of it at "
            f"least. Check {spelt('time-unit')} and {spelt('rate')}"
        )
    got += f", as {lost:,} rows lack a value" if lost else ""
    raise DataError(
        f"{got}, the median over people is {rate:g}: {made}, expected half of them at most. "
        f"{spelt('rate', f'{round(own) or own:.4g}')} averages the others, "
        f"{spelt('rate', f'{rate:g}')} interpolates; or import the others alone"
    )
