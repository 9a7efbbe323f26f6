"""FedSub where the server's sums get noise, the device half.

See :mod:`fedsub_core.secure.noised_slots`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from fedsub_client.methods.fedsub.addends import held_means, shown_rows
from fedsub_client.methods.fedsub.fusion_by_means import Array, Bools, places
from fedsub_client.methods.fedsub.summed import SummedFedSubLearner, SummedSubnetworkLearner
from fedsub_core.methods.fedsub_sums import ASKED_UNITS, EVERYBODY
from fedsub_core.secure.bounds import Bounded
from fedsub_core.secure.cluster_slots import MEMBERS, PROTOTYPES, Layout
from fedsub_core.secure.noised_slots import bounded, without_units
from fedsub_core.secure.quantise import Levels
from fedsub_core.wire.bundles import Bundle


class NoisedSubnetworkLearner(SummedSubnetworkLearner):
    """What methods share that fuse subnetworks by sums with noise."""

    def bounds_beside(self) -> Mapping[str, float]:
        """Return the bound of each part that is of no cluster; devices need not shorten it."""
        return {}

    def bounds(self, received: Bundle, numbers: int, levels: Levels) -> Sequence[Bounded]:
        """Return how long prototypes and rows may be."""
        longest = levels.longest, levels.longest_prototypes
        return bounded(self._layout, self._asks(received), *longest, self.bounds_beside())

    def add_clusters(
        self,
        parts: dict[str, Array],
        rows: Mapping[str, Array],
        chosen: Mapping[str, Bools],
        upload: Bundle,
        bundle: Bundle,
        inside: NDArray[np.int64],
        of_units: NDArray[np.int64],
    ) -> None:
        """Add prototypes, and of all units that are asked for how far the rows moved.

        That is from everybody's last mean, which the download has.
        """
        parts[MEMBERS][places(inside)] = 1
        parts[PROTOTYPES][places(inside)] = held_means(upload, len(inside))[inside >= 0]
        for layer in self._layout.layers:
            asked = bundle.bits(layer.name + ASKED_UNITS)
            every = np.ones((len(inside), layer.units), np.bool_)
            for own in layer.rows:
                moved = rows[own.name].copy()
                last = bundle.part(own.name + EVERYBODY)
                moved[last.at.held((layer.units,))] -= last.values
                _, parts[own.name] = shown_rows(moved, asked, inside, every)

    def layout(self) -> Layout:
        """Return where each number of a vector stands."""
        return without_units(super().layout())


class NoisedFedSubLearner(NoisedSubnetworkLearner, SummedFedSubLearner):
    """FedSub's mean of clusters (``fusion = avg``)."""
