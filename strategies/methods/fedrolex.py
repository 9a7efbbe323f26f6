"""FedRolex, the server half (Alam et al. 2022, algorithm 1): a window of units that moves on."""

from __future__ import annotations

from collections.abc import Mapping

import torch

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
            layer: ((first + torch.arange(count)) % sizes[layer]).sort().values
            for layer, count in counts.items()
        }
