"""FedCLAR, the server half (Presotto et al. 2022): one mean, then one for each group."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fedsub_core.methods.fedclar import divides_in
from fedsub_core.models.chain import Model
from fedsub_core.turn import Turn
from strategies.dividing import Labels, divided_below
from strategies.grouping import GroupedStrategy
from strategies.rounds.server_half import State


class FedCLARStrategy(GroupedStrategy):
    """Groups are as far apart as the threshold; each starts from its members' uploads."""

    def init(self, model: Model) -> State:
        """See :class:`GroupedStrategy`."""
        self.similarity = self.hyper.similarity
        return super().init(model)

    def divides_in(self, turn: Turn) -> int:
        """See :class:`GroupedStrategy`."""
        return divides_in(self.hyper, turn.rounds)

    def divided(self, distances: NDArray[np.float64]) -> Labels:
        """Join groups up to the threshold."""
        return divided_below(distances, self.hyper.linkage, self.hyper.threshold)
