"""FedSub where the server's sums get noise, the server half.

See :mod:`fedsub_core.secure.noised_slots`. What is asked for follows from counts with noise: so
many people must have been counted that noise alone has not made them enough.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from math import sqrt

import numpy as np
from numpy.typing import NDArray

from fedsub_core.models.architecture import LayerWithUnits, UnitRows
from fedsub_core.models.unit_rows import unit_rows
from fedsub_core.secure import slots
from fedsub_core.secure.bounds import Bounded, beyond, deviations
from fedsub_core.secure.cluster_slots import MEMBERS, PEOPLE, PROTOTYPES, Array, Layout
from fedsub_core.secure.noised_slots import OF_CLUSTERS, bounded, longest_counts, without_units
from fedsub_core.secure.quantise import Levels
from strategies.methods.fedsub.summed import SummedFedSubStrategy
from strategies.rounds.server_half import State


class NoisedFedSubStrategy(SummedFedSubStrategy):
    """State: as without noise, but of units nothing is counted.

    Means of rows are of all people of a cluster. What all selected is not known.
    """

    def counts(self) -> list[str]:
        """Return which parts of a sum say how many people something is of now."""
        return [PEOPLE]

    def of_units(self, state: State, layer: LayerWithUnits) -> NDArray[np.int64]:
        """Return of how many people each unit's rows are: as many as are in the cluster.

        Output units are asked for of their own class alone: people who lack it know nothing of it.
        """
        people: NDArray[np.int64] = state[PEOPLE].numpy()
        of = np.repeat(people[..., None], layer.units, 2)
        if layer.name == self.model.affine[-1].name:
            of = of * np.eye(len(people), dtype=np.int64)[:, None]
        return of

    def bounded(self) -> tuple[Bounded, ...]:
        """Return how long parts of the round's vectors are."""
        longest = self.settings.noise.dp_clip, self.settings.noise.dp_clip_prototypes
        return bounded(self.layout, self._asked, *longest, self.bounds_beside())

    def bounds_beside(self) -> Mapping[str, float]:
        """Return how long what is of no cluster is, by name."""
        return {}

    def deviations(self, levels: Levels) -> NDArray[np.float64]:
        """Return them of each part."""
        return deviations(self.bounded()) * slots.unit(levels)

    @property
    def slack(self) -> int:
        """By how many people noise may move a count, whatever else is asked for."""
        parts = OF_CLUSTERS + len(self.layout.beside)
        return beyond(self.settings.noise.dp_noise * longest_counts(self.layout) * sqrt(parts))

    def prototypes_of(self, found: Mapping[str, Array]) -> tuple[NDArray[np.int64], Array]:
        """Return of how many people a sum's prototypes are, [classes, K], and their sums."""
        return np.rint(found[MEMBERS]).astype(np.int64), found[PROTOTYPES]

    def rows_of(self, found: Mapping[str, Array], own: UnitRows) -> tuple[NDArray[np.int64], Array]:
        """Return the same of rows, [classes, K, units]: all people of a cluster add them."""
        members = np.rint(found[MEMBERS]).astype(np.int64)
        people = np.repeat(members[..., None], found[own.name].shape[2], 2)
        return people, found[own.name] + people[..., None] * self._start[own.name]

    def selected_by(
        self, found: Mapping[str, Array], layer: LayerWithUnits, people: NDArray[np.int64]
    ) -> NDArray[np.bool_]:
        """Return that of no unit it is known who selected it."""
        return np.zeros((*people.shape, layer.units), np.bool_)

    @property
    def layout(self) -> Layout:
        """Return where each number of a vector stands."""
        return without_units(super().layout)

    @cached_property
    def _start(self) -> Mapping[str, Array]:
        """The rows of the run's first model, by name float32 [units, width]."""
        model = self.model.init(1, self.settings.rounds.seed)
        every = [own for layer in self.layout.layers for own in layer.rows]
        return {own.name: unit_rows(model, own)[0].numpy() for own in every}
