"""Features of windows by dilated kernels, compiled: what ``encoder.h`` is called with."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fedsub_core.kernels.library import Kernels, check

#: Numbers of a kernel: KERNEL in ``chain.h``.
ROW = 19


def encode(
    kernels: Kernels,
    table: NDArray[np.int32],
    steps: NDArray[np.int16],
    levels: NDArray[np.int8],
) -> None:
    """Fill ``levels [n, kernels, 5]`` in.

    Parameters
    ----------
    table : ``[kernels, ROW]``, of which every dilation and channel is one that the windows have.
    steps : ``[n, channels, time]``.

    Raises
    ------
    MemoryError
        Where there is no room for a window.
    ValueError
        Where a kernel wants a channel that the windows do not have.
    """
    steps = np.ascontiguousarray(steps)
    count, shape = len(table), steps.shape
    check(kernels.encode(table.ctypes.data, count, steps.ctypes.data, *shape, levels.ctypes.data))
