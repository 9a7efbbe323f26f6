"""A stream of random numbers that gives the same on every machine and with every NumPy.

The raw numbers of a bit generator never change; what ``numpy.random.Generator`` makes of them may,
from version to version.
"""

from __future__ import annotations

from statistics import NormalDist

import numpy as np

from fedsub_core.seeds import derive_seed

_NORMAL = NormalDist()


class Draws:
    """The stream that a run's encoder is drawn from."""

    def __init__(self, seed: int) -> None:
        self._raw = np.random.PCG64(derive_seed(seed, "", 0, "encoder"))

    def below(self, n: int) -> int:
        """Return an integer from 0 to `n` - 1."""
        return (int(self._raw.random_raw()) * n) >> 64

    def uniform(self, low: float, high: float) -> float:
        """Return a number between `low` and `high`, neither of them."""
        return low + (high - low) * ((int(self._raw.random_raw()) >> 12) + 0.5) * 2.0**-52

    def exponential(self, most: int) -> int:
        """Return an integer from 1 to `most`, about as often below as above its square root."""
        return min(most, int((most + 1) ** self.uniform(0, 1)))

    def normal(self) -> float:
        """Return a number of mean 0 and variance 1."""
        return _NORMAL.inv_cdf(self.uniform(0, 1))

    def some(self, count: int, of: int) -> tuple[int, ...]:
        """Return `count` different integers below `of`, ascending."""
        left = list(range(of))
        return tuple(sorted(left.pop(self.below(len(left))) for _ in range(count)))
