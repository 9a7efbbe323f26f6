"""Means over clients or over samples that know which of the two they are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from torch import Tensor

Unit = Literal["clients", "samples"]


@dataclass(frozen=True)
class Aggregate:
    """A mean that carries its weight and the unit it averages over.

    Parameters
    ----------
    value : the mean; nan if it averages over nothing.
    weight : how many units it averages over.
    unit : ``"clients"`` (every client counts alike) or ``"samples"``.
    """

    value: float
    weight: float
    unit: Unit

    def __add__(self, other: Aggregate) -> Aggregate:
        """Return the mean over both, or raise ValueError if they average over different units."""
        if self.unit != other.unit:
            raise ValueError(
                f"a mean over {self.unit} and a mean over {other.unit} cannot be added; "
                "build both with the same one of mean_over_clients and mean_over_samples"
            )
        if not self.weight or not other.weight:
            return self if self.weight else other
        weight = self.weight + other.weight
        total = self.value * self.weight + other.value * other.weight
        return Aggregate(total / weight, weight, self.unit)


def mean_over_clients(values: Tensor, examples: Tensor) -> Aggregate:
    """Return the mean of `values [clients]` in which every client that has samples counts alike.

    A client with no sample is left out. A nan of a client that has samples is not: a model that
    diverged must show.
    """
    counted = values[examples > 0].double()
    return Aggregate(float(counted.mean()), float(len(counted)), "clients")


def mean_over_samples(values: Tensor, examples: Tensor) -> Aggregate:
    """Return the mean of `values [clients]` in which every sample counts alike.

    Clients with no sample are left out, as in :func:`mean_over_clients`.
    """
    counted = examples > 0
    weight = examples[counted].double()
    total = weight.sum()
    return Aggregate(
        float((values[counted].double() * weight).sum() / total), float(total), "samples"
    )
