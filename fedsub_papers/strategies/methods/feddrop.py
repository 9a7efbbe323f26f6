"""Federated Dropout, the server half (Caldas et al. 2018, section 3): units drawn by lot."""

from collections.abc import Mapping

import numpy as np
import torch

from fedsub_core.models.units import Units
from fedsub_core.seeds import generator
from fedsub_core.turn import Turn
from strategies.parts.averaging import Rule
from strategies.parts.sub_models import Counts, SubModelServer
from strategies.rounds.round import Round
from strategies.rounds.server_half import State


class FedDropServer(SubModelServer):
    """The draw follows from the run's seed, the client, the round and the group."""

    @property
    def rule(self) -> Rule:
        """What a number becomes that not all hold."""
        return "residual" if self.hyper.rule == "residual" else "holders"

    def units(self, state: State, round: Round, client: str, counts: Counts) -> Units:
        """Return the units that were drawn, ascending."""
        return drawn(counts, self.sizes(round), round.turn, client if self.hyper.per_client else "")


def drawn(counts: Mapping[str, int], sizes: Mapping[str, int], turn: Turn, who: str) -> Units:
    """Return so many units of each group of `sizes`, drawn for the round and for `who`."""
    found = {}
    for group, count in counts.items():
        stream = generator(turn.seed, who, turn.round, f"units of {group}")
        order = torch.randperm(sizes[group], generator=stream)
        found[group] = np.sort(order[:count].numpy())
    return found
