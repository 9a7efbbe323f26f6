"""Windows over recordings: where they start, so that none spans two labels or a pause."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]


def stretches(*columns: Array, breaks: Array | None = None) -> Iterator[tuple[int, int]]:
    """Yield ``[start, end)`` of every longest stretch of rows in which all `columns` stay equal.

    Parameters
    ----------
    columns : arrays [n], such as labels and users.
    breaks : bool [n] or None
        True where a row does not follow the one before it, such as after a pause.
    """
    n = len(columns[0])
    if n == 0:
        return
    new = np.zeros(n, np.bool_)
    new[0] = True
    for column in columns:
        new[1:] |= column[1:] != column[:-1]
    if breaks is not None:
        new |= breaks
    starts = np.flatnonzero(new)
    yield from zip(starts.tolist(), [*starts[1:].tolist(), n], strict=True)


def window_starts(start: int, end: int, window: int, step: int) -> range:
    """Return where the windows of `window` rows start in ``[start, end)``, `step` rows apart.

    What is left at the end is no window.
    """
    return range(start, end - window + 1, step)
