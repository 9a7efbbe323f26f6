"""Dates beside recordings, such as those of intervals and heads, in the zone of the options."""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from fedsub_data.importing.options import ImportOptions
from fedsub_data.importing.source import Rows
from fedsub_data.importing.zones import WallClock


def local_seconds(
    t: NDArray[np.float64],
    named: NDArray[np.bool_],
    options: ImportOptions,
    place: Callable[[int], str],
) -> NDArray[np.float64]:
    """Return seconds since 1970 of dates, [n], that were read as if in UTC.

    Parameters
    ----------
    named : bool [n], which dates name their zone.
    place : the place of a date, by its number.

    Raises DataError for an hour that the zone does not have, or has twice.
    """
    count = len(t)
    at, none = np.arange(count), np.full(count, -1, np.int64)
    rows = Rows(
        "of the date", np.zeros(count, np.int64), at, none, t, np.zeros((count, 0), np.float32)
    )
    return WallClock(options, False, lambda _, row: place(row)).read(rows, named).times
