"""HeteroFL, the server half (Diao et al. 2021, section 3): the first units of each layer."""

from __future__ import annotations

import numpy as np

from fedsub_core.models.units import Units
from strategies.parts.sub_models import Counts, SubModelServer
from strategies.rounds.round import Round
from strategies.rounds.server_half import State


class HeteroFLServer(SubModelServer):
    """Each smaller sub-model lies in all larger ones."""

    def units(self, state: State, round: Round, client: str, counts: Counts) -> Units:
        """Return the first units of each group."""
        return {group: np.arange(count) for group, count in counts.items()}
