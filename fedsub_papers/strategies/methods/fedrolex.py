"""FedRolex, the server half (Alam et al. 2022, algorithm 1): a window of units that moves on."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from fedsub_core.models.units import Units
from fedsub_core.turn import Turn
from strategies.parts.sub_models import SubModelStrategy
from strategies.rounds.server_half import State


class FedRolexStrategy(SubModelStrategy):
    """In round r the window begins at unit r - 1, and comes round at a layer's end."""

    def units(self, state: State, client: str, counts: Mapping[str, int], turn: Turn) -> Units:
        """Return the window's units, ascending."""
        first, sizes = (turn.round - 1) * self.hyper.step, self.sizes
        return {
            group: np.sort((first + np.arange(count)) % sizes[group])
            for group, count in counts.items()
        }
