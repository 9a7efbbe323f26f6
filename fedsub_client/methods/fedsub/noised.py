"""FedSub where the server's sums get noise, the device half.

See :mod:`fedsub_core.secure.noised_slots`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from fedsub_client.learner import State
from fedsub_client.methods.fedsub.addends import held_means, shown_rows
from fedsub_client.methods.fedsub.fusion_by_means import Array, Bools, places
from fedsub_client.methods.fedsub.summed import SummedFedSubLearner, SummedSubnetworkLearner
from fedsub_core.methods.fedsub_sums import ASKED_UNITS
from fedsub_core.secure.bounds import Bounded
from fedsub_core.secure.cluster_slots import MEMBERS, PROTOTYPES, Layout
from fedsub_core.secure.noised_slots import bounded, without_units
from fedsub_core.secure.quantise import Levels
from fedsub_core.turn import Turn
from fedsub_core.wire.bundles import Bundle


class NoisedSubnetworkLearner(SummedSubnetworkLearner):
    """What methods share that fuse subnetworks by sums with noise."""

    def bounds_beside(self) -> Mapping[str, float]:
        """Return how long what is of no cluster is, by name."""
        return {}

    def bounds(self, received: Bundle, numbers: int, levels: Levels) -> Sequence[Bounded]:
        """Return how long prototypes and rows may be."""
        longest = levels.longest, levels.longest_prototypes
        return bounded(self._layout, self._asks(received), *longest, self.bounds_beside())

    def shared_rows(self, state: State, turn: Turn) -> dict[str, Array]:
        """Return how far all clients' rows moved from the run's first model."""
        start = self._rows(self.first_model(1, turn.seed))
        return {name: rows - start[name] for name, rows in super().shared_rows(state, turn).items()}

    def add_clusters(
        self,
        parts: dict[str, Array],
        rows: Mapping[str, Array],
        chosen: Mapping[str, Bools],
        upload: Bundle,
        asks: Mapping[str, Bools],
        inside: NDArray[np.int64],
        of_units: NDArray[np.int64],
    ) -> None:
        """Add prototypes, and all units' rows that are asked for, selected or not."""
        parts[MEMBERS][places(inside)] = 1
        parts[PROTOTYPES][places(inside)] = held_means(upload, len(inside))[inside >= 0]
        for layer in self._layout.layers:
            asked = asks[layer.name + ASKED_UNITS]
            every = np.ones((len(inside), layer.units), np.bool_)
            for own in layer.rows:
                _, parts[own.name] = shown_rows(rows[own.name], asked, inside, every)

    def layout(self) -> Layout:
        """Return where each number of a vector stands."""
        return without_units(super().layout())


class NoisedFedSubLearner(NoisedSubnetworkLearner, SummedFedSubLearner):
    """FedSub's mean of clusters (``fusion = avg``)."""
