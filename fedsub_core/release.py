"""Which release a device or server says it is: who is behind, and whose packages fit.

A release is told as FedSub's version and, behind it, those of installed packages that offer methods
of the run (:func:`fedsub_core.packages.version_with`): ``0.1.0 with mine 0.2.0 and other 1.3``.
Versions of FedSub are compared to say who is behind, never to turn anybody away: what the two sides
understand of each other is the wire's own number.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

_NUMBERS = re.compile(r"\d{1,9}(\.\d{1,9}){0,9}", re.ASCII)


@dataclass(frozen=True)
class Release:
    """What one side has installed.

    Parameters
    ----------
    fedsub : FedSub's version.
    packages : versions of packages that offer methods of the run, by name.
    """

    fedsub: str
    packages: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, told: str) -> Release:
        """Read what a side says of itself; whatever it is, it is read as something."""
        fedsub, _, rest = told.partition(" with ")
        named = (one.rpartition(" ") for one in rest.split(" and ") if one)
        return cls(fedsub, {name: version for name, _, version in named})

    def fits(self, other: Release) -> bool:
        """Whether packages are the same, each in the same series: its version's first two numbers.

        Such a package says on both sides what its method's halves tell each other, and has no
        number of its own for it.
        """
        names = self.packages.keys() | other.packages.keys()
        here, there = ([_series(side.packages.get(n)) for n in names] for side in (self, other))
        return here == there

    def behind(self, other: Release) -> bool:
        """Whether this is older than `other`, in FedSub's version or in a package's.

        A version without a number, as a source tree's, is neither older nor newer.
        """
        pairs = [(self.fedsub, other.fedsub)]
        shared = self.packages.keys() & other.packages.keys()
        pairs += [(self.packages[name], other.packages[name]) for name in shared]
        numbers = ((_numbers(mine), _numbers(theirs)) for mine, theirs in pairs)
        return any(mine and mine < theirs for mine, theirs in numbers)


def behind(told: Mapping[str, str], here: str) -> dict[str, str]:
    """Return the devices of older releases than this side's, with the release that each told."""
    own = Release.of(here)
    return {who: said for who, said in sorted(told.items()) if Release.of(said).behind(own)}


def numbers_of(told: str) -> str:
    """Return the numbers that what a side told begins with, "?" if with none: no words of its."""
    found = _NUMBERS.match(told)
    return found[0] if found else "?"


def _series(version: str | None) -> tuple[int, ...] | None:
    return None if version is None else (*_numbers(version), 0, 0)[:2]


def _numbers(version: str) -> tuple[int, ...]:
    """Return a version's leading numbers, without zeros at their end: 0.2 is 0.2.0."""
    found = _NUMBERS.match(version)
    numbers = [int(number) for number in found[0].split(".")] if found else []
    while numbers and numbers[-1] == 0:
        numbers.pop()
    return tuple(numbers)
