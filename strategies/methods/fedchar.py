"""FedCHAR, the server half (Li et al. 2023): one mean, then one for each group of like updates."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fedsub_core.methods.fedchar import divides_in
from fedsub_core.turn import Turn
from strategies.parts.dividing import Labels, divided_into
from strategies.parts.grouping import GroupedServer


class FedCHARServer(GroupedServer):
    """K groups by updates; all start from the mean over everybody."""

    similarity = "update"
    starts_apart = False

    def divides_in(self, turn: Turn) -> int:
        """Return the round after whose uploads people are divided."""
        return divides_in(self.hyper, turn.rounds)

    def divided(self, distances: NDArray[np.float64]) -> Labels:
        """Cut the hierarchy at the configured number of groups."""
        return divided_into(distances, self.hyper.linkage, self.hyper.k_selection)
