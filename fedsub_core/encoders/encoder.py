"""What an encoder is: samples as small integers, features as integers, whose sums have no order.

So neither BLAS nor fused products, neither a stack nor another runtime can change a bit of them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from itertools import count
from statistics import NormalDist
from typing import ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from fedsub_core.errors import ConfigError
from fedsub_core.models.architecture import Shape
from fedsub_core.seeds import derive_seed

#: Bytes that features of the samples of one stack may take, 8 GiB.
MOST_BYTES = 2**33


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


#: Of mean 0 and variance 1.
NORMAL = NormalDist()


class Draws:
    """The random stream of a run's encoder, the same on every machine and in every language.

    It is made of digests alone: what a generator of NumPy or PyTorch makes of a seed may be another
    number in another version.
    """

    def __init__(self, seed: int) -> None:
        self._raw = (derive_seed(seed, "", i, "encoder") for i in count())

    def below(self, n: int) -> int:
        """Return an integer from 0 to `n` - 1."""
        return (next(self._raw) * n) >> 63

    def uniform(self) -> float:
        """Return a number between 0 and 1, neither of them."""
        return ((next(self._raw) >> 11) + 0.5) * 2.0**-52

    def both_signs(self) -> float:
        """Return a number between -1 and 1, neither of them."""
        return 2 * self.uniform() - 1

    def exponential(self, most: int) -> int:
        """Return an integer from 1 to `most`, about as often below as above its square root."""
        return min(most, int((most + 1) ** self.uniform()))

    def normal(self) -> float:
        """Return a number of mean 0 and variance 1."""
        return NORMAL.inv_cdf(self.uniform())

    def some(self, many: int, of: int) -> tuple[int, ...]:
        """Return `many` different integers below `of`, ascending."""
        left = list(range(of))
        return tuple(sorted(left.pop(self.below(len(left))) for _ in range(many)))


@dataclass(frozen=True)
class Encoder(ABC):
    """Features of samples: a function that a text, a seed and a sample's shape fix to the last bit.

    Parameters
    ----------
    size : N of its text, such as ``kernels:N``.

    Raises ConfigError where it cannot take such samples.
    """

    size: int
    seed: int
    input_shape: Shape
    #: The smallest size there is; and whether a weak device can compute a part of it.
    least: ClassVar[int]
    narrows: ClassVar[bool] = True
    #: Whether a person's training samples decide on it.
    personal: ClassVar[bool] = False

    @property
    @abstractmethod
    def text(self) -> str:
        """How a run's configuration names it."""

    @property
    @abstractmethod
    def features(self) -> int:
        """How many features a sample has."""

    def of_person(self, steps: NDArray[np.int16]) -> Self:
        """Return the encoder of a person with quantised training samples, which may be none."""
        return self

    @abstractmethod
    def levels(self, steps: NDArray[np.int16]) -> NDArray[np.int8]:
        """Return ``[n, features]`` of :func:`~fedsub_core.encoders.encoder.quantised` samples."""

    def narrow(self, capacity: float) -> Self:
        """Return the encoder of a device that computes a share of the kernels or units: the first.

        Its features are the first of this one's, for both draw one after the other from one seed.

        Parameters
        ----------
        capacity : the share, in (0, 1]; of kernels or units it is rounded, halves to even.
        """
        return replace(self, size=max(self.least, round(capacity * self.size)))

    def check_memory(self, samples: int) -> None:
        """Raise a ConfigError if features of so many samples would take too much memory."""
        if (needed := 4 * self.features * samples) > MOST_BYTES:
            raise ConfigError(
                f"encoder {self.text}: got {samples:,} samples in a stack, whose {self.features:,} "
                f"features take {needed / 2**30:,.1f} GiB; expected {MOST_BYTES >> 30} at most. "
                "Take fewer features"
            )

    def encode(self, x: NDArray[np.float32]) -> NDArray[np.float32]:
        """Return features ``[n, features]`` in [-1, 1) of standardised ``x [n, *input_shape]``.

        A sample's are the same bits whatever other samples stand beside it.
        """
        return scaled(self.levels(quantised(x)))
