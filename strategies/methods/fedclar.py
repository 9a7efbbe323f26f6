"""FedCLAR, the server half (Presotto et al. 2022): one mean, then one for each group."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fedsub_core.config.halves import ServerSettings
from fedsub_core.methods.fedclar import divides_in
from fedsub_core.turn import Turn
from strategies.parts.dividing import Labels, divided_below
from strategies.parts.grouping import GroupedServer


class FedCLARServer(GroupedServer):
    """Groups are as far apart as the threshold; each starts from its members' uploads."""

    def __init__(self, settings: ServerSettings) -> None:
        super().__init__(settings)
        self.similarity = self.hyper.similarity

    def divides_in(self, turn: Turn) -> int:
        """Return the round after whose uploads people are divided."""
        return divides_in(self.hyper, turn.rounds)

    def divided(self, distances: NDArray[np.float64]) -> Labels:
        """Join groups up to the threshold."""
        return divided_below(distances, self.hyper.linkage, self.hyper.threshold)
