"""Local times of a zone as seconds since 1970, also where clocks are put back or forward."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import numpy as np
from numpy.typing import NDArray

Seconds = NDArray[np.float64]
#: Clocks change at a multiple of so many seconds.
_CHANGE = 900.0
_SINCE = datetime(1970, 1, 1)


def offsets(t: Seconds, zone: ZoneInfo) -> Seconds:
    """Return how far a zone's clock is ahead of UTC at seconds since 1970, s, [n]."""
    bins, at = np.unique(np.floor(t / _CHANGE), return_inverse=True)
    moments = (_SINCE.replace(tzinfo=UTC) + timedelta(seconds=b * _CHANGE) for b in bins.tolist())
    ahead = [_seconds(moment.astimezone(zone).utcoffset()) for moment in moments]
    return np.array(ahead, np.float64)[at]


def _seconds(ahead: timedelta | None) -> float:
    assert ahead is not None
    return ahead.total_seconds()
