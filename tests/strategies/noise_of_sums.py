"""What noise did to each sum of a run, and what people added to it, seen from the inside."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from fedsub_core.metrics import MetricRow
from fedsub_core.secure import slots
from fedsub_core.secure.bounds import Bounded
from fedsub_core.secure.keys import Words
from fedsub_core.secure.quantise import BESIDE, Levels
from strategies.rounds.context import Opened
from strategies.rounds.noised_means import NoisedMeans

#: Of a run of sums that may have noise.
SUMS: dict[str, Any] = dict(
    robust="none", lr=0.05, batch_size=16, standardise="client", secure_aggregation=True
)
#: So little that it changes no digit that is looked at; and more than anything is long.
LITTLE, LONG = 1e-9, 1e3


@dataclass
class NoiseOfSums:
    """Of each round the noise on its sum, in its own numbers' units; and of each vector its parts.

    Parameters
    ----------
    noise : float64 [numbers] each.
    lengths : of each vector that was made, the L2 norms of its parts after rounding.
    parts, values : of the same vectors, and what they would hold if nothing had a bound.
    """

    noise: list[NDArray[np.float64]] = field(default_factory=list)
    levels: list[Levels] = field(default_factory=list)
    lengths: list[list[float]] = field(default_factory=list)
    parts: list[Sequence[Bounded]] = field(default_factory=list)
    values: list[NDArray[np.floating]] = field(default_factory=list)

    def check(self, round: int, expected: Sequence[tuple[int, float, bool]]) -> None:
        """Demand of a round's noise that each part's is as large as expected.

        Parameters
        ----------
        expected : of each part how many numbers it has, the noise's deviation, and whether they
            are slots.
        """
        at, noise = 0, self.noise[round - 1]
        for numbers, deviation, of_slots in expected:
            unit = slots.unit(self.levels[round - 1]) if of_slots else 1.0
            own = noise[at : at + numbers] / (deviation * unit)
            # Of a chi-squared sum: no further off than five of its deviations.
            assert abs((own**2).sum() - numbers) < 5 * np.sqrt(2 * numbers) + 5
            assert numbers < 3 or own.std() > 0.2
            at += numbers
        assert at == len(noise)


def watched_noise(monkeypatch: pytest.MonkeyPatch) -> NoiseOfSums:
    """Return what noise will have done to all sums of a test."""
    found = NoiseOfSums()
    add, make = NoisedMeans.of_sum, slots.rounded

    def added(
        self: NoisedMeans, opened: Opened, round: int, deviations: NDArray[np.float64]
    ) -> tuple[Opened, list[MetricRow]]:
        noised, rows = add(self, opened, round, deviations)
        assert opened.total is not None and noised.total is not None
        found.noise.append(noised.total.sum - opened.total.sum)
        found.levels.append(opened.levels)
        return noised, rows

    def made(values: NDArray[np.floating], parts: Sequence[Bounded], levels: Levels) -> Words:
        vector = make(values, parts, levels)
        own = slots_of(levels, vector)
        ends = np.cumsum([part.numbers for part in parts])[:-1]
        found.lengths.append([float(np.linalg.norm(one)) for one in np.split(own, ends)])
        found.parts.append(parts)
        found.values.append(values)
        return vector

    monkeypatch.setattr(NoisedMeans, "of_sum", added)
    monkeypatch.setattr(slots, "rounded", made)
    return found


def slots_of(levels: Levels, vector: Words) -> NDArray[np.float64]:
    """Return a vector's slots as numbers."""
    whole = vector[:-BESIDE].astype(np.int32).astype(np.float64)
    found: NDArray[np.float64] = whole * (slots.RANGE / slots.levels_of(levels).each)
    return found
