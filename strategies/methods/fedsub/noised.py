"""FedSub where the server's sums get noise, the server half.

See :mod:`fedsub_core.secure.noised_slots`. What is asked for follows from counts with noise: so
many people must have been counted that noise alone has not made them enough.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import sqrt

import numpy as np
import torch
from numpy.typing import NDArray

from fedsub_core.methods.fedsub_sums import EVERYBODY
from fedsub_core.models.architecture import LayerWithUnits, UnitRows
from fedsub_core.models.unit_rows import unit_rows
from fedsub_core.secure.bounds import Bounded, beyond
from fedsub_core.secure.cluster_slots import PEOPLE, PROTOTYPES, Array, Layout
from fedsub_core.secure.noised_slots import OF_CLUSTERS, bounded, longest_counts, without_units
from strategies.methods.fedsub.cluster_means import members_of
from strategies.methods.fedsub.everybodys_means import ANYBODY, EverybodysMeans
from strategies.rounds.context import Start
from strategies.rounds.server_half import State


class NoisedFedSubStrategy(EverybodysMeans):
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
        """Return the parts of the round's vectors, by what it asks for."""
        longest = self.settings.noise.dp_clip, self.settings.noise.dp_clip_prototypes
        return bounded(self.layout, self._asked, *longest, self.bounds_beside())

    def bounds_beside(self) -> Mapping[str, float]:
        """Return the bound of each part that is of no cluster; devices need not shorten it."""
        return {}

    @property
    def slack(self) -> int:
        """By how many people noise may move a count, whatever else is asked for."""
        parts = OF_CLUSTERS + len(self.layout.beside)
        return beyond(self.settings.noise.dp_noise * longest_counts(self.layout) * sqrt(parts))

    def init(self, start: Start) -> State:
        """Return clusters, and as everybody's mean the run's first model: rows move from there."""
        state = super().init(start)
        first = start.model.init(1, self.settings.rounds.seed)
        for layer in self.layout.layers:
            for own in layer.rows:
                state[own.name + EVERYBODY] = unit_rows(first, own)[0].clone()
                state[own.name + ANYBODY] = torch.ones(layer.units, dtype=torch.bool)
        return state

    def prototypes_of(self, found: Mapping[str, Array]) -> tuple[NDArray[np.int64], Array]:
        """Return of how many people a sum's prototypes are, [classes, K], and their sums."""
        return members_of(found), found[PROTOTYPES]

    def rows_of(
        self, state: State, found: Mapping[str, Array], own: UnitRows
    ) -> tuple[NDArray[np.int64], Array]:
        """Return the same of rows, [classes, K, units]: all people of a cluster add them.

        They add how far they are from everybody's last mean.
        """
        people = np.repeat(members_of(found)[..., None], found[own.name].shape[2], 2)
        return people, found[own.name] + people[..., None] * state[own.name + EVERYBODY].numpy()

    def selected_by(
        self, found: Mapping[str, Array], layer: LayerWithUnits, people: NDArray[np.int64]
    ) -> NDArray[np.bool_]:
        """Return that nobody selected a unit, for it is not counted."""
        return np.zeros((*people.shape, layer.units), np.bool_)

    @property
    def layout(self) -> Layout:
        """Return where each number of a vector stands."""
        return without_units(super().layout)
