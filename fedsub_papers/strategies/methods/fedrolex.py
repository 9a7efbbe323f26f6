"""FedRolex, the server half (Alam et al. 2022, algorithm 1): a window of units that moves on."""

import numpy as np

from fedsub_core.models.units import Units
from strategies.parts.sub_models import Counts, SubModelServer
from strategies.rounds.round import Round
from strategies.rounds.server_half import State


class FedRolexServer(SubModelServer):
    """In round r the window begins at unit r - 1, and comes round at a layer's end."""

    def units(self, state: State, round: Round, client: str, counts: Counts) -> Units:
        """Return the window's units, ascending."""
        first, sizes = (round.number - 1) * self.hyper.step, self.sizes(round)
        return {
            group: np.sort((first + np.arange(count)) % sizes[group])
            for group, count in counts.items()
        }
