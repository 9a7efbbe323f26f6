"""``relu:N``: a feature vector's own entries, and N random units max(0, w x + b) of 1 to 3 of them.

Random features as in Rahimi and Recht, Weighted Sums of Random Kitchen Sinks, NIPS 2008; few inputs
a unit, because entries that somebody made by hand mean something alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import sqrt
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from fedsub_core.encoders.encoder import FULL, UNIT, Draws, Encoder
from fedsub_core.encoders.names import RELU
from fedsub_core.errors import ConfigError

#: Inputs of a unit at most; steps of a weight of 1; and how many standard deviations an input's and
#: a unit's full scale are.
INPUTS, WEIGHT, OF_INPUT, OF_UNIT = 3, 64, 8, 4
_INPUTS = range(INPUTS)
#: Samples that are encoded together.
BLOCK = 1024
#: Of a quantised input, and of a unit's sum, one level.
INPUT_LEVEL, UNIT_LEVEL = UNIT * OF_INPUT // FULL, UNIT * WEIGHT * OF_UNIT // FULL


@dataclass(frozen=True)
class Unit:
    """One unit: its `inputs`, their `weights` in 1/64, its `bias` in 1/64 of 1/256 deviation."""

    inputs: tuple[int, ...]
    weights: tuple[int, ...]
    bias: int


@dataclass(frozen=True)
class ReluEncoder(Encoder):
    """Features of vectors ``[inputs]``: the inputs, then unit after unit.

    Weights are normal and of length 1 before they are rounded, biases uniform in [-1, 1] standard
    deviations. Sums stay below 2**24, so that float32 computes them exactly, too.
    """

    least: ClassVar[int] = 0

    def __post_init__(self) -> None:
        if len(self.input_shape) != 1:
            raise ConfigError(
                f"encoder {self.text}: got samples of shape {self.input_shape}, expected feature "
                "vectors [features]. Use kernels:N for windows [channels, time], or none"
            )

    @property
    def text(self) -> str:
        """How a run's configuration names it."""
        return f"{RELU}:{self.size}"

    @property
    def features(self) -> int:
        """How many features a sample has."""
        return self.input_shape[0] + self.size

    @property
    def units(self) -> tuple[Unit, ...]:
        """The units; of fewer units with the same seed the first are the same."""
        return _drawn(self.seed, self.size, self.input_shape[0])

    def levels(self, steps: NDArray[np.int16]) -> NDArray[np.int8]:
        """Return ``[n, features]`` of quantised samples."""
        entries = self.input_shape[0]
        found = np.empty((len(steps), self.features), np.int8)
        of, weights, biases = _arrays(self.seed, self.size, entries)
        for begin in range(0, len(steps), BLOCK):
            rows = found[begin : begin + BLOCK]
            whole = steps[begin : begin + BLOCK].astype(np.int32)
            rows[:, :entries] = np.minimum((whole + INPUT_LEVEL // 2) // INPUT_LEVEL, FULL - 1)
            inputs = self.inputs_of_units(whole)
            for turn, seen in enumerate(inputs):
                own = slice(turn, None, len(inputs))
                sums = biases[own] + sum(seen[:, of[k, own]] * weights[k, own] for k in _INPUTS)
                level = (np.maximum(sums, 0) + UNIT_LEVEL // 2) // UNIT_LEVEL
                rows[:, entries:][:, own] = np.minimum(level, FULL - 1)
        return found

    def inputs_of_units(self, steps: NDArray[np.int32]) -> Sequence[NDArray[np.int32]]:
        """Return inputs of units, of ``steps [n, inputs]``: each unit takes the next, in turn."""
        return [steps]


# People's encoders differ in little or nothing: their units are drawn once.


@lru_cache(maxsize=16)
def _drawn(seed: int, size: int, entries: int) -> tuple[Unit, ...]:
    draws = Draws(seed)
    return tuple(_unit(draws, entries) for _ in range(size))


def _unit(draws: Draws, entries: int) -> Unit:
    inputs = draws.some(1 + draws.below(min(INPUTS, entries)), entries)
    drawn = [draws.normal() for _ in inputs]
    length = sqrt(sum(w * w for w in drawn))
    weights = tuple(round(WEIGHT * w / length) for w in drawn)
    return Unit(inputs, weights, round(WEIGHT * UNIT * draws.both_signs()))


@lru_cache(maxsize=16)
def _arrays(
    seed: int, size: int, entries: int
) -> tuple[NDArray[np.intp], NDArray[np.int32], NDArray[np.int32]]:
    """Return units' inputs and weights, ``[INPUTS, size]`` each, 0 where fewer; and biases."""
    inputs, weights = np.zeros((INPUTS, size), np.intp), np.zeros((INPUTS, size), np.int32)
    units = _drawn(seed, size, entries)
    for i, unit in enumerate(units):
        inputs[: len(unit.inputs), i], weights[: len(unit.inputs), i] = unit.inputs, unit.weights
    return inputs, weights, np.array([unit.bias for unit in units], np.int32)
