"""Samples as small integers, and features as integers: sums of integers have no order.

So neither BLAS nor fused products, neither a stack nor another runtime can change a bit of them.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

#: Steps in a standard deviation, standard deviations from which on a value counts as no larger, and
#: the greatest step: -8 is one, +8 is not.
UNIT, CLIP = 256, 8
GREATEST = UNIT * CLIP - 1
#: A feature's full scale: it is one of the levels -128 to 127, divided by this.
FULL = 128


def quantised(x: NDArray[np.float32]) -> NDArray[np.int16]:
    """Return standardised `x` in steps of 1/256 standard deviation, from -2048 to 2047.

    Halves go to the even step, as IEEE 754 rounds.
    """
    steps = np.rint(np.clip(x, -CLIP, CLIP) * np.float32(UNIT))
    found: NDArray[np.int16] = np.minimum(steps, GREATEST).astype(np.int16)
    return found


def scaled(levels: NDArray[np.int8]) -> NDArray[np.float32]:
    """Return features in [-1, 1) of their levels; exact."""
    return levels.astype(np.float32) / np.float32(FULL)
