"""Conversion of people whose units or signs differ from the others', or their refusal."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from fedsub_core.errors import ConfigError, DataError, listed
from fedsub_core.spelling import spelt
from fedsub_data.importing.behaviour import G
from fedsub_data.importing.client_ids import nearest_person
from fedsub_data.importing.mixed_units import DEGREES, Mix, mixes
from fedsub_data.importing.options import ImportOptions
from fedsub_data.importing.sensors import Vector, inconvertible, sensors
from fedsub_data.importing.sizes import Sizes
from fedsub_data.importing.source import Rows, Source

#: By the factor between two units: that of the smaller numbers, and that of the larger.
_UNITS = {G: ("g", "m/s^2"), DEGREES: ("rad", "deg")}
#: A message lists no more people or columns.
_LISTED = 6


@dataclass(frozen=True)
class Conversion:
    """Factors of people's numbers, float32 [F] by person, and sentences on them."""

    factors: Mapping[str, NDArray[np.float32]]
    notes: tuple[str, ...] = ()

    def at(self, columns: Sequence[int]) -> Conversion:
        """Return the conversion of rows that have some of the columns."""
        return replace(self, factors={who: own[list(columns)] for who, own in self.factors.items()})

    def converted(self, rows: Rows) -> Rows:
        """Return a person's rows in everybody's units and signs."""
        if rows.person not in self.factors:
            return rows
        times = self.factors[rows.person]
        return replace(rows, x=rows.x * (times if rows.x.ndim == 2 else times[:, None]))


class Units:
    """Comparison of people's units and signs, sensor by sensor.

    Parameters
    ----------
    source : whose rows are looked at.
    options : ``convert`` and ``mixed_units`` count.

    Raises ConfigError where ``convert`` names somebody who is not there.
    """

    def __init__(self, source: Source, options: ImportOptions) -> None:
        self._features, self._options = source.features, options
        like = options.convert_like
        if like and like not in source.people:
            raise ConfigError(
                f"convert: got as:{like}, expected a person who is there, such as "
                f"as:{source.people[0]}.{nearest_person(like, source.people)}"
            )
        self._sensors = sensors(source.features)
        vectors = [vector for sensor in self._sensors for vector in sensor.vectors]
        single = [Vector((i,)) for i in range(len(source.features))]
        self._sizes = Sizes(list(dict.fromkeys([*vectors, *single])), len(source.labels))
        self._off = options.mixed_units == "keep" and not options.convert

    def add(self, rows: Rows) -> None:
        """Look at one person's rows."""
        if not self._off:
            self._sizes.add(rows)

    def check(self, kept: Sequence[int] | None = None) -> Conversion:
        """Return the conversion of people who differ.

        `kept`: the columns that are looked at; None: all.

        Raises DataError where some differ and ``convert`` does not say what to do; it names them,
        and how.
        """
        if self._off or len(self._sizes.length) < 2:
            return Conversion({}, self._needless(set()))
        factors: dict[str, NDArray[np.float32]] = {}
        notes, rest, used = list[str](), list[Mix](), set[str]()
        with warnings.catch_warnings():  # of classes that people do not share there is no mean
            warnings.simplefilter("ignore", RuntimeWarning)
            mixed = mixes(self._sensors, self._sizes)
        for mix in mixed:
            if kept is not None and set(mix.columns).isdisjoint(kept):
                continue
            word, target = self._target(mix)
            if not word:
                rest.append(mix)
                continue
            used.add(word)
            if unlike := inconvertible(self._features, mix.flipped):
                raise DataError(
                    f"convert: got {word} for {self._columns(mix)}, beside column {unlike[0]!r}, "
                    "which another unit or sign changes otherwise than by a factor; expected "
                    "values and means alone. Convert before the import, or name others with "
                    f"{spelt('features')}"
                )
            by: dict[float, list[str]] = {}
            for person in (*mix.others, *mix.factors):
                by.setdefault(target / mix.factors.get(person, 1.0), []).append(person)
            for times, people in by.items():
                if np.isclose(times, 1.0):
                    continue
                for person in people:
                    own = factors.setdefault(person, np.ones(len(self._features), np.float32))
                    own[list(mix.columns)] *= np.float32(times)
                names = listed(people, _LISTED)
                notes.append(
                    f"Converted by {spelt('convert', word)}: {self._columns(mix)} of {names}, "
                    f"multiplied by {times:.6g}."
                )
        if rest and self._options.mixed_units != "keep":
            raise DataError(self._refusal(rest))
        return Conversion(factors, (*notes, *self._needless(used)))

    def _target(self, mix: Mix) -> tuple[str, float]:
        """Return the word of ``convert`` that fits, and the size of its unit's numbers.

        The size is a multiple of most people's. The word is empty where none fits.
        """
        sizes = _sizes(mix)
        for word in self._options.conversions:
            if word in sizes:
                return word, sizes[word]
        like = self._options.convert_like
        if like in mix.factors or like in mix.others:
            return f"as:{like}", mix.factors.get(like, 1.0)
        return "", 1.0

    def _needless(self, used: set[str]) -> tuple[str, ...]:
        return tuple(
            f"Nothing to convert by {spelt('convert', word)}: no person's numbers differ so."
            for word in self._options.conversions
            if word not in used
        )

    def _columns(self, mix: Mix) -> str:
        names = [repr(self._features[i]) for i in mix.columns]
        return f"column{'s' * (len(names) > 1)} {listed(names, _LISTED)}"

    def _refusal(self, mixed: Sequence[Mix]) -> str:
        """Return the error's text on mixes that no option settles."""
        faults = []
        for mix in mixed:
            first, who = next(iter(mix.factors)), list(mix.factors)
            people = len(who) + len(mix.others)
            differs = (
                "gravity that points the other way than the others' in each class (a sensor's "
                "sign, or how it is worn)"
                if mix.flipped
                else f"values of {mix.length:.4g} on average, the others have {mix.usual:.4g}: "
                f"{mix.length / mix.usual:.3g} times as much, as with {mix.what}"
            )
            faults.append(
                f"person {first!r}, {self._columns(mix)}: got {differs} "
                f"({len(who)} of {people} people differ so: {listed(who, _LISTED)})"
            )
        units = [pair for mix in mixed if (pair := tuple(_sizes(mix)))]
        words = [",".join(dict.fromkeys(pair[i] for pair in units)) for i in (0, 1) if units]
        if len(units) < len(mixed):
            like = f"as:{mixed[-1].others[0]}"
            words = [f"{word},{like}" for word in words] or [like]
        given = [word for word in self._options.conversions if word[:3] != "as:"]
        ways = " or ".join(spelt("convert", ",".join([*given, word])) for word in words)
        return (
            f"{'; '.join(faults)}; expected one unit and one sign in a federation. {ways} converts "
            f"them, {spelt('mixed-units', 'keep')} lets them pass"
        )


def _sizes(mix: Mix) -> dict[str, float]:
    """Return the size of numbers by known unit, as a multiple of most people's."""
    for factor, (small, large) in _UNITS.items():
        for own in mix.factors.values():
            if np.isclose(own, factor):
                return {small: 1.0, large: factor}
            if np.isclose(own, 1 / factor):
                return {small: 1 / factor, large: 1.0}
    return {}
