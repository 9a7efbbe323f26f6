"""``kernels:N+statistics``: statistics and spectrum of each series of a window, then the kernels'.

Series are the channels, then the norms of sensors. All is computed in whole numbers, and each level
has a fixed range: nothing is asked of anybody's samples.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from fedsub_core.backend import for_windows
from fedsub_core.data.sensors import AXES, Sensors, sensors_of
from fedsub_core.encoders.encoder import FULL
from fedsub_core.encoders.kernels_encoder import KernelsEncoder
from fedsub_core.encoders.names import GROUPS, LARGEST, WHOLE_GROUPS
from fedsub_core.encoders.spectrum import EDGES, length_of, spectrum, turns
from fedsub_core.encoders.whole import LONGEST, OCTAVE, Whole, level, octaves, root
from fedsub_core.errors import ConfigError
from fedsub_core.kernels.library import Kernels, check

#: Samples between a value and the one that it is multiplied with.
LAGS = 2, 5, 10, 20
#: Of so many pairs of channels there are correlations at most.
PAIRS = 36
#: Values of a stack that NumPy computes with at a time: they stay in cache.
AT_ONCE = 2**18

#: A standard deviation in the powers of the shape: values are cut at 2**11, 32 deviations, so that
#: sums of fourth powers stay below 2**62.
DEVIATION, CUT = 2**6, 2**11 - 1
#: log2 of the kurtosis that is level 0.
KURTOSIS = 2


@dataclass(frozen=True)
class Series:
    """The series of windows: channels, then norms of sensors.

    Parameters
    ----------
    values : less their mean, rounded to whole steps, ``[n, series, time]``, 4096 at most: a norm of
        four channels is 4096.
    squares : the sum of their squares, ``[n, series]``: 2**42 at most.
    channels : how many of the series are no norms.
    """

    values: Whole
    squares: Whole
    channels: int

    @classmethod
    def of(cls, steps: NDArray[np.int16], sensors: Sensors) -> Series:
        """Return the series of quantised windows ``[n, channels, time]``."""
        whole, time = steps.astype(np.int64), steps.shape[2]
        norms = [root((whole[:, list(axes)] ** 2).sum(1))[:, None] for axes in sensors]
        every = np.concatenate([whole, *norms], 1)
        every -= (2 * every.sum(2, keepdims=True) + time) // (2 * time)
        return cls(every, (every**2).sum(2), steps.shape[1])

    @property
    def time(self) -> int:
        """How many values a series has."""
        return int(self.values.shape[2])


def shape(of: Series) -> Whole:
    """Return levels of skewness, log kurtosis and zero crossings, ``[n, series, 3]``.

    They are 0 at skewness 0 and kurtosis 4. Full scale are a skewness of 4, and four octaves.
    """
    time = of.time
    # In 1/16 step, so that quiet series are not all of deviation 1 or 2.
    deviation = np.maximum(root(256 * of.squares // time), 1)
    scale = 2**20 * DEVIATION // deviation
    z = np.clip(of.values * scale[:, :, None] + 2**15 >> 16, -CUT, CUT)
    skewness = level((z**3).sum(2), time * DEVIATION**3 // 32)
    kurtosis = octaves(np.maximum((z**4).sum(2) // time, 1)) - OCTAVE * (24 + KURTOSIS)
    signs = of.values >= 0
    crossings = (signs[:, :, 1:] != signs[:, :, :-1]).sum(2)
    share = (2 * (2 * FULL - 1) * crossings + time - 1) // (2 * (time - 1)) - FULL
    return np.stack([skewness, np.clip(kurtosis, -FULL, FULL - 1), share], 2)


def autocorrelation(of: Series) -> Whole:
    """Return levels of the autocorrelation at each lag, ``[n, series, 4]``; 0 of longer ones."""
    x, whole = of.values, np.maximum(of.squares, 1)
    products = (x[:, :, lag:] * x[:, :, : max(of.time - lag, 0)] for lag in LAGS)
    return np.stack([level(FULL * product.sum(2), whole) for product in products], 2)


def spectra(of: Series) -> Whole:
    """Return levels of the spectrum, ``[n, series, 10]``."""
    n, series, time = of.values.shape
    return spectrum(of.values.reshape(n * series, time)).reshape(n, series, len(EDGES) + 1)


def pairs(channels: int) -> tuple[tuple[int, int], ...]:
    """Return the pairs of channels that are correlated: neighbours first, which may be axes."""
    every = ((i, i + apart) for apart in range(1, channels) for i in range(channels - apart))
    return tuple(islice(every, PAIRS))


def correlations(of: Series) -> Whole:
    """Return levels of the correlation of each pair of channels, ``[n, pairs]``."""
    # In 1/16 step: 2**25 at most, products 2**50.
    length = root(256 * of.squares[:, : of.channels])
    found = np.empty((len(length), len(pairs(of.channels))), np.int64)
    for k, (i, j) in enumerate(pairs(of.channels)):
        product = (of.values[:, i] * of.values[:, j]).sum(1)
        found[:, k] = level(256 * FULL * product, np.maximum(length[:, i] * length[:, j], 1))
    return found


@dataclass(frozen=True)
class Group:
    """Statistics of one kind.

    Parameters
    ----------
    levels : makes them of series, ``[n, series, a series]`` or ``[n, all]``.
    each : how many there are of each series; 0: one for each of the pairs of channels.
    """

    levels: Callable[[Series], Whole]
    each: int

    def count(self, channels: int, sensors: int) -> int:
        """Return how many there are."""
        return self.each * (channels + sensors) if self.each else len(pairs(channels))


#: In the order of the names: :data:`fedsub_core.encoders.names.GROUPS`.
TABLE = dict(
    zip(
        GROUPS,
        (
            Group(shape, 3),
            Group(autocorrelation, len(LAGS)),
            Group(spectra, len(EDGES) + 1),
            Group(correlations, 0),
        ),
        strict=True,
    )
)


@dataclass(frozen=True)
class StatisticsEncoder(KernelsEncoder):
    """Features of windows ``[channels, time]``: groups of statistics, one after another; kernels'.

    A weak device computes all statistics and the first kernels.
    """

    groups: tuple[str, ...] = GROUPS

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.input_shape[1] > LONGEST:
            raise ConfigError(
                f"encoder {self.text}: got windows of {self.input_shape[1]:,} samples in time, "
                f"expected {LONGEST:,} at most"
            )
        if self.features > LARGEST:
            raise ConfigError(
                f"encoder {self.text}: got {self.input_shape[0]:,} channels, which make "
                f"{self.features:,} features, expected {LARGEST:,} at most. Lower N, or take "
                "kernels:N alone"
            )

    @property
    def text(self) -> str:
        """How a run's configuration names it."""
        groups = (WHOLE_GROUPS,) if self.groups == GROUPS else self.groups
        return "+".join((super().text, *groups))

    @cached_property
    def statistics(self) -> int:
        """How many statistics a sample has."""
        channels, norms = self.input_shape[0], len(sensors_of(self.input_shape))
        return sum(TABLE[name].count(channels, norms) for name in self.groups)

    @property
    def features(self) -> int:
        """How many features a sample has."""
        return self.statistics + super().features

    def levels(self, steps: NDArray[np.int16]) -> NDArray[np.int8]:
        """Return ``[n, features]`` of quantised samples, by the compiled kernels or by NumPy."""
        found = np.empty((len(steps), self.features), np.int8)
        found[:, self.statistics :] = super().levels(steps)
        found[:, : self.statistics] = self._described(steps)
        return found

    def _described(self, steps: NDArray[np.int16]) -> NDArray[np.int8]:
        """Return the statistics, ``[n, statistics]``."""
        found, sensors = (
            np.empty((len(steps), self.statistics), np.int8),
            sensors_of(self.input_shape),
        )
        if (kernels := for_windows().kernels) is not None:
            describe(kernels, self.groups, sensors, steps, found)
            return found
        channels, time = self.input_shape
        block = max(1, AT_ONCE // ((channels + len(sensors)) * length_of(time)))
        for start in range(0, len(steps), block):
            of = Series.of(steps[start : start + block], sensors)
            some = [TABLE[name].levels(of).reshape(len(of.values), -1) for name in self.groups]
            found[start : start + block] = np.concatenate(some, 1)
        return found


def describe(
    kernels: Kernels,
    groups: tuple[str, ...],
    sensors: Sensors,
    steps: NDArray[np.int16],
    levels: NDArray[np.int8],
) -> None:
    """Fill ``levels [n, statistics]`` in of ``steps [n, channels, time]``.

    Raises MemoryError where there is no room for a window. Raises ValueError where a sensor has a
    channel that the windows do not have.
    """
    steps = np.ascontiguousarray(steps)
    of, table = sensor_table(sensors), turns(length_of(steps.shape[2]))
    chosen = sum(1 << GROUPS.index(name) for name in groups)
    tables = of.ctypes.data, len(of), table.ctypes.data, len(table)
    check(kernels.describe(chosen, *tables, steps.ctypes.data, *steps.shape, levels.ctypes.data))


def sensor_table(sensors: Sensors) -> NDArray[np.int32]:
    """Return a row of channels for each sensor, as ``fedsub.h`` has them: -1 behind the last."""
    table = np.full((len(sensors), AXES), -1, np.int32)
    for row, axes in zip(table, sensors, strict=True):
        row[: len(axes)] = axes
    return table
