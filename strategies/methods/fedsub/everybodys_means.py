"""FedSub's sums of clusters, and by them the means of all people, whatever their cluster."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch

from fedsub_core.methods.fedsub_sums import EVERYBODY, FRESH
from fedsub_core.secure.cluster_slots import Array
from fedsub_core.turn import Turn
from fedsub_core.wire.bundles import Bits, Floats, Part
from strategies.methods.fedsub.cluster_means import KNOWN, mean_of, ones_and_sums
from strategies.methods.fedsub.summed import SummedFedSubStrategy
from strategies.rounds.context import Start
from strategies.rounds.server_half import State

#: By rows: of which units there ever was a mean of everybody; and of which it is of the last sum.
ANYBODY, OF_LAST = ".anybody", ".fresh" + KNOWN


class EverybodysMeans(SummedFedSubStrategy):
    """State: FedSub's of sums, and by rows the last mean of everybody that there was.

    ``<rows>.everybody`` float32 [units, width]; ``<rows>.anybody`` and ``<rows>.fresh.known`` bool
    [units].
    """

    def init(self, start: Start) -> State:
        """Return clusters, and no mean of everybody."""
        state = super().init(start)
        for layer in self.layout.layers:
            for own in layer.rows:
                state[own.name + EVERYBODY] = torch.zeros(layer.units, own.width)
                for name in (ANYBODY, OF_LAST):
                    state[own.name + name] = torch.zeros(layer.units, dtype=torch.bool)
        return state

    def told_beside(self, state: State, turn: Turn) -> dict[str, Part]:
        """Send everybody's means, and which of them are new."""
        told = super().told_beside(state, turn)
        for layer in self.layout.layers:
            for own in layer.rows:
                known, rows = state[own.name + ANYBODY], state[own.name + EVERYBODY]
                told[own.name + EVERYBODY] = Floats.rows(known.numpy(), rows[known].numpy())
                told[own.name + FRESH] = Bits(state[own.name + OF_LAST].numpy())
        return told

    def means_of(self, state: State, found: Mapping[str, Array]) -> State:
        """Return the means of clusters, and of all people in those of the class in turn."""
        part = super().means_of(state, found)
        for layer in self.layout.layers:
            for own in layer.rows:
                people, sums = ones_and_sums(found[own.name])
                known = part[own.name + KNOWN].numpy()
                people = np.where(known, people, 0).sum((0, 1))
                mean = mean_of(np.where(known[..., None], sums, 0).sum((0, 1)), people)
                some, last = torch.from_numpy(people > 0), state[own.name + EVERYBODY]
                # Whoever joins while nothing is known begins with the last that was.
                every = torch.where(some[:, None], torch.from_numpy(mean), last)
                part |= {own.name + EVERYBODY: every, own.name + OF_LAST: some}
                part[own.name + ANYBODY] = some | state[own.name + ANYBODY]
        return part
