"""``kernels:N``: how often, and how strongly, N random dilated kernels answer to a window.

Kernels as in MiniRocket (Dempster, Schmidt and Webb, KDD 2021): nine weights, six of -1 and three
of 2, at random dilations and on random channels. Thresholds are drawn from the seed instead of
taken from samples: nobody's data are needed before the first round. The maximum is ROCKET's
(Dempster, Petitjean and Webb 2020).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations
from math import sqrt
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from fedsub_core.backend import for_windows
from fedsub_core.encoders.encoder import FULL, UNIT, Draws, Encoder
from fedsub_core.encoders.names import KERNELS, PER_KERNEL
from fedsub_core.errors import ConfigError
from fedsub_core.kernels.library import Kernels, check
from fedsub_core.models.architecture import Shape

#: Weights of a kernel, and the squared length of all nine.
LENGTH, SQUARED = 9, 18
#: Where the three weights of 2 may stand.
PLACES = tuple(combinations(range(LENGTH), 3))
#: Channels of a kernel at most (as MiniRocket has it): sums then stay below 2**24, so that float32
#: computes them exactly, too.
MOST_CHANNELS = 9
#: The shortest windows; and standard deviations of a sum that a maximum's full scale is.
SHORTEST, OF_MAXIMUM = 16, 4
#: Samples that NumPy computes at a time: their sums stay in cache.
BLOCK = 64


@dataclass(frozen=True)
class Kernel:
    """One kernel.

    Parameters
    ----------
    dilation : steps between two weights; ``4 * dilation`` zeros stand on either side of a window.
    channels : whose values it adds up, ascending.
    places : of the nine weights those that are 2, ascending.
    thresholds : of a position's sum, in steps of 1/256 standard deviation.
    level : by what the maximum, in those steps, is divided for its level.
    """

    dilation: int
    channels: tuple[int, ...]
    places: tuple[int, ...]
    thresholds: tuple[int, ...]
    level: int


@dataclass(frozen=True)
class KernelsEncoder(Encoder):
    """Features of windows ``[channels, time]``: five of each kernel, kernel after kernel.

    Four are shares of positions whose sum is above a threshold, from 0 to 1 as levels -128 to 127;
    the thresholds are uniform within +-1 standard deviation that the sum of white noise has. The
    fifth is the greatest sum, four such deviations being full scale.
    """

    least: ClassVar[int] = 1

    def __post_init__(self) -> None:
        if len(self.input_shape) != 2 or self.input_shape[1] < SHORTEST:
            raise ConfigError(
                f"encoder {self.text}: got samples of shape {self.input_shape}, expected windows "
                f"[channels, time] of {SHORTEST} samples in time or more. Use relu:N for feature "
                "vectors, or none"
            )

    @property
    def text(self) -> str:
        """How a run's configuration names it."""
        return f"{KERNELS}:{self.size}"

    @property
    def features(self) -> int:
        """How many features a sample has."""
        return PER_KERNEL * self.size

    @property
    def kernels(self) -> tuple[Kernel, ...]:
        """The kernels; of fewer kernels with the same seed the first are the same."""
        return _kernels(self.size, self.seed, self.input_shape)

    @property
    def table(self) -> NDArray[np.int32]:
        """The kernels' numbers, a row each, as ``fedsub.h`` orders them."""
        return _table(self.size, self.seed, self.input_shape)

    def levels(self, steps: NDArray[np.int16]) -> NDArray[np.int8]:
        """Return ``[n, features]`` of quantised samples, by the compiled kernels or by NumPy."""
        found = np.empty((len(steps), self.size, PER_KERNEL), np.int8)
        if (kernels := for_windows().kernels) is not None:
            encode(kernels, self.table, steps, found)
            return found.reshape(len(steps), PER_KERNEL * self.size)
        for start in range(0, len(steps), BLOCK):
            for i, kernel in enumerate(self.kernels):
                found[start : start + BLOCK, i] = answers(kernel, steps[start : start + BLOCK])
        return found.reshape(len(steps), PER_KERNEL * self.size)


# Drawing takes longer than a person's samples do: the devices of a process share what they draw.


@lru_cache(maxsize=8)
def _kernels(size: int, seed: int, shape: Shape) -> tuple[Kernel, ...]:
    draws = Draws(seed)
    return tuple(_kernel(draws, *shape) for _ in range(size))


@lru_cache(maxsize=8)
def _table(size: int, seed: int, shape: Shape) -> NDArray[np.int32]:
    rows = np.zeros((size, ROW), np.int32)
    for row, k in zip(rows, _kernels(size, seed, shape), strict=True):
        numbers = k.dilation, k.level, *k.places, *k.thresholds, len(k.channels), *k.channels
        row[: len(numbers)] = numbers
    rows.flags.writeable = False
    return rows


def _kernel(draws: Draws, channels: int, time: int) -> Kernel:
    dilation = draws.exponential(max(1, (time - 1) // (LENGTH - 1)))
    seen = draws.some(draws.exponential(min(channels, MOST_CHANNELS)), channels)
    places = PLACES[draws.below(len(PLACES))]
    deviation = UNIT * sqrt(SQUARED * len(seen))
    bounds = [round(deviation * draws.both_signs()) for _ in range(PER_KERNEL - 1)]
    level = round(OF_MAXIMUM * deviation / FULL)
    return Kernel(dilation, seen, places, tuple(bounds), level)


#: Numbers of a kernel: FEDSUB_KERNEL in ``fedsub.h``.
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

    Raises MemoryError where there is no room for a window. Raises ValueError where a kernel wants a
    channel that the windows do not have.
    """
    steps = np.ascontiguousarray(steps)
    count, shape = len(table), steps.shape
    check(kernels.encode(table.ctypes.data, count, steps.ctypes.data, *shape, levels.ctypes.data))


def sums(kernel: Kernel, steps: NDArray[np.int16]) -> NDArray[np.int32]:
    """Return the kernel's sum at every position, ``[n, time]``."""
    time, reach = steps.shape[2], (LENGTH // 2) * kernel.dilation
    seen = np.zeros((len(steps), time + 2 * reach), np.int32)
    for channel in kernel.channels:
        seen[:, reach : reach + time] += steps[:, channel]
    found = np.zeros((len(steps), time), np.int32)
    for place in range(LENGTH):
        at = place * kernel.dilation
        found += (2 if place in kernel.places else -1) * seen[:, at : at + time]
    return found


def answers(kernel: Kernel, steps: NDArray[np.int16]) -> NDArray[np.int32]:
    """Return the levels of one kernel's features, ``[n, 5]``."""
    found, time = sums(kernel, steps), steps.shape[2]
    answer = np.empty((len(steps), PER_KERNEL), np.int32)
    for i, threshold in enumerate(kernel.thresholds):
        above = np.count_nonzero(found > threshold, axis=1)
        # Rounded: none is -128, all are 127.
        answer[:, i] = (2 * (2 * FULL - 1) * above + time) // (2 * time) - FULL
    level = (2 * found.max(axis=1) + kernel.level) // (2 * kernel.level)
    answer[:, -1] = np.clip(level, -FULL, FULL - 1)
    return answer
