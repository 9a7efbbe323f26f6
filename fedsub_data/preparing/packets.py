"""Values that a radio link lost, NaN in a recording: short gaps are bridged, long ones stay."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def interpolate_gaps(signals: NDArray[np.float64], longest: int) -> NDArray[np.bool_]:
    """Fill gaps of at most `longest` rows linearly, in place; return bool [n], the rows filled.

    Parameters
    ----------
    signals : float64 [n, channels], rows at a fixed rate; NaN where a value was lost. A gap at
        the start or the end has nothing on one side and stays.
    """
    filled = np.zeros(len(signals), np.bool_)
    for column in signals.T:
        lost = np.isnan(column)
        if not lost.any() or lost.all():
            continue
        edges = np.diff(lost.astype(np.int8), prepend=0, append=0)
        starts, ends = np.flatnonzero(edges == 1), np.flatnonzero(edges == -1)
        short = (ends - starts <= longest) & (starts > 0) & (ends < len(column))
        # +1 where a short gap starts and -1 where it ends: the running sum is 1 inside.
        inside = np.zeros(len(column) + 1, np.int64)
        inside[starts[short]] = 1
        inside[ends[short]] -= 1
        rows = np.flatnonzero(np.cumsum(inside[:-1]))
        column[rows] = np.interp(rows, np.flatnonzero(~lost), column[~lost])
        filled[rows] = True
    return filled


class Held:
    """A slow signal's last value, carried forward over the rows between its own.

    Parameters
    ----------
    longest_s : how long a value is carried, in seconds.
    """

    def __init__(self, longest_s: float) -> None:
        self.longest_s = longest_s
        self._value, self._second = np.nan, 0.0

    def carry(
        self, values: NDArray[np.float64], seconds: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """Return `values` [n] with each NaN replaced by the last value, unless too old.

        Parameters
        ----------
        values, seconds : float64 [n], the next rows' values and times.
        """
        known = np.concatenate([[self._value], values])
        times = np.concatenate([[self._second], seconds])
        has = ~np.isnan(known)
        last = np.maximum.accumulate(np.where(has, np.arange(len(known)), 0))
        age = times - times[last]
        carried = np.where(age <= self.longest_s, known[last], np.nan)
        self._value, self._second = float(known[last[-1]]), float(times[last[-1]])
        return carried[1:]
