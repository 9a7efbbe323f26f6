"""Parts of a vector that have bounds of their own, in sums with noise.

A person's parts have L2 norms of at most ``c``, and the noise on each part a deviation ``s``. All
together hide a person as noise of multiplier ``m`` does if the parts' ``(c / s)**2`` add up to
``1 / m**2``: it is one Gaussian mechanism, of numbers in units of their deviations (Dwork and Roth
2014, appendix A). Here all parts have the same ``c / s``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import floor, inf, sqrt


@dataclass(frozen=True)
class Bounded:
    """Numbers that are bounded together.

    Parameters
    ----------
    numbers : how many.
    longest : greatest L2 norm of one person's.
    key : the option that says so; "": they cannot be longer, and devices need not shorten them.
    slots : whether they are rounded as slots are, whose range is fixed.
    """

    numbers: int
    longest: float
    key: str = ""
    slots: bool = True

    @property
    def shortened_to(self) -> float:
        """To which norm a device shortens them."""
        return self.longest if self.key else inf


def of_parts(parts: Sequence[Bounded]) -> list[float]:
    """Return the noise's deviation in each part, at a multiplier of 1."""
    shares = sum(part.numbers > 0 for part in parts)
    return [part.longest * sqrt(shares) for part in parts]


def beyond(deviation: float) -> int:
    """Return by how many people noise raises a count at most, but in 3 of 10 million cases."""
    return floor(5 * deviation + 0.5)
