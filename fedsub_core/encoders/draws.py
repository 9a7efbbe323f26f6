"""A stream of random numbers that is the same on every machine and in every language.

It is made of digests alone: what a generator of NumPy or PyTorch makes of a seed may be another
number in another version.
"""

from __future__ import annotations

from itertools import count
from statistics import NormalDist

from fedsub_core.seeds import derive_seed

_NORMAL = NormalDist()


class Draws:
    """The stream that a run's encoder is drawn from."""

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
        return _NORMAL.inv_cdf(self.uniform())

    def some(self, many: int, of: int) -> tuple[int, ...]:
        """Return `many` different integers below `of`, ascending."""
        left = list(range(of))
        return tuple(sorted(left.pop(self.below(len(left))) for _ in range(many)))
