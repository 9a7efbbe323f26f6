"""Other ways to draw an encoder's features than the one that is used: a part of encoder_choices.py.

Each is a function of whole numbers, as :mod:`fedsub_core.encoders` has them: quantised samples to
levels from -128 to 127.
"""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import combinations
from math import sqrt

import numpy as np
from numpy.typing import NDArray

from fedsub_core.encoders.encoder import FULL, UNIT, Draws
from fedsub_core.encoders.relu_encoder import INPUT_LEVEL, OF_UNIT

#: Quantised samples ``[n, *shape]`` to levels ``[n, D]``.
Encode = Callable[[NDArray[np.int16]], NDArray[np.int8]]
#: Weights of ROCKET's kernels are normal; here a unit is so many whole steps.
STEPS = 16


def clipped(levels: NDArray[np.floating]) -> NDArray[np.int8]:
    """Return levels rounded and kept within their scale."""
    whole: NDArray[np.int8] = np.clip(np.rint(levels), -FULL, FULL - 1).astype(np.int8)
    return whole


@dataclass(frozen=True)
class Kernels:
    """Kernels drawn otherwise.

    Parameters
    ----------
    size : how many.
    thresholds : of each, a share of positions above it.
    within : uniform in +- so many standard deviations of white noise's sum.
    maximum : whether the greatest sum is a feature, too.
    length : weights of a kernel.
    normal : weights as ROCKET draws them, of mean 0; else a third of them 2 and the others -1.
    """

    size: int
    thresholds: int = 4
    within: float = 1.0
    maximum: bool = True
    length: int = 9
    normal: bool = False

    def __call__(self, steps: NDArray[np.int16]) -> NDArray[np.int8]:
        """Return the levels of windows ``[n, channels, time]``."""
        draws = Draws(0)
        return clipped(np.hstack([self._one(draws, steps) for _ in range(self.size)]))

    def _one(self, draws: Draws, steps: NDArray[np.int16]) -> NDArray[np.float64]:
        channels, time = steps.shape[1:]
        dilation = draws.exponential(max(1, (time - 1) // (self.length - 1)))
        some = list(draws.some(draws.exponential(min(channels, 9)), channels))
        weights = self._weights(draws)
        reach = self.length // 2 * dilation
        seen = np.pad(steps[:, some].astype(np.int32).sum(1), ((0, 0), (reach, reach)))
        sums = sum(w * seen[:, i * dilation : i * dilation + time] for i, w in enumerate(weights))
        deviation = UNIT * sqrt(float(weights @ weights) * len(some))
        found = [
            2 * FULL * (sums > deviation * self.within * draws.both_signs()).mean(1) - FULL
            for _ in range(self.thresholds)
        ]
        if self.maximum:
            found.append(FULL * sums.max(1) / (4 * deviation))
        return np.stack(found, 1)

    def _weights(self, draws: Draws) -> NDArray[np.int64]:
        if self.normal:
            drawn = np.array([draws.normal() for _ in range(self.length)])
            whole: NDArray[np.int64] = np.rint(STEPS * (drawn - drawn.mean())).astype(np.int64)
            return whole
        places = list(combinations(range(self.length), self.length // 3))
        weights = np.full(self.length, -1, np.int64)
        weights[list(places[draws.below(len(places))])] = 2
        return weights


@dataclass(frozen=True)
class Units:
    """Units drawn otherwise, beside the inputs themselves.

    Parameters
    ----------
    size : how many.
    inputs : of a unit, 1 to so many; 0 is all of them.
    kind : ``relu``; ``cosine`` of random Fourier features; ``product`` of two inputs.
    """

    size: int
    inputs: int = 3
    kind: str = "relu"

    def __call__(self, steps: NDArray[np.int16]) -> NDArray[np.int8]:
        """Return the levels of vectors ``[n, inputs]``."""
        draws, x = Draws(0), steps / UNIT
        found = [UNIT * x / INPUT_LEVEL, *(self._one(draws, x)[:, None] for _ in range(self.size))]
        return clipped(np.hstack(found))

    def _one(self, draws: Draws, x: NDArray[np.float64]) -> NDArray[np.float64]:
        entries = x.shape[1]
        if self.kind == "product":
            one, other = draws.below(entries), draws.below(entries)
            return FULL / OF_UNIT**2 * x[:, one] * x[:, other]
        many = 1 + draws.below(min(self.inputs, entries)) if self.inputs else entries
        some = list(draws.some(many, entries))
        weights = np.array([draws.normal() for _ in some])
        if self.kind == "cosine":
            phase = np.pi * draws.both_signs()
            # Wavelengths as far as samples lie apart.
            waves: NDArray[np.float64] = np.cos(x[:, some] @ weights / sqrt(many) + phase)
            return (FULL - 1) * waves
        sums = x[:, some] @ (weights / np.sqrt(weights @ weights)) + draws.both_signs()
        above: NDArray[np.float64] = np.maximum(sums, 0)
        return FULL / OF_UNIT * above
