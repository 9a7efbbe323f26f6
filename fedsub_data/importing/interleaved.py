"""Files of several recordings, which sorting by time would interleave."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fedsub_data.importing.source import Rows

#: A step is short below this share of the usual one; of one recording's steps few more become so.
_SHORT, _MORE = 0.7, 0.05
#: Where so many steps run backwards, but not nearly all, rows stand in no order of time at all.
_SHUFFLED = (0.25, 0.75)


def interleaved(rows: Rows, order: NDArray[np.int64]) -> str:
    """Return a clause on rows of one file that sorting would interleave; "" if it would not.

    Rows of two recordings would take turns, so that steps become shorter, and a window would hold
    both. A row that stands there twice makes no recording; rows that are shuffled are not several.

    Parameters
    ----------
    order : the rows in order of time.
    """
    assert rows.t is not None
    least, most = _SHUFFLED
    if least < float(np.mean(np.diff(rows.t) < 0)) < most:
        return ""
    now, then = np.abs(np.diff(rows.t)), np.diff(rows.t[order])
    usual = float(np.median(now))
    again = (then == 0) & (np.diff(rows.x[order].reshape(len(rows), -1), axis=0) == 0).all(axis=1)
    then = then[~again]
    if usual == 0 or not len(then):
        return ""
    before, after = (float(np.mean(steps < _SHORT * usual)) for steps in (now, then))
    if after <= before + _MORE:
        return ""
    return (
        f"in order of time {after:.0%} of the steps would be shorter than they are ({before:.0%} "
        "now): recordings that follow one another would be sorted into each other"
    )
