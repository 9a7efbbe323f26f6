"""FedMP, the server half (Jiang et al. 2022, section III): units of largest norm, R2SP."""

import numpy as np
from numpy.typing import NDArray

from fedsub_core.models.units import UnitGroup, Units
from strategies.parts.averaging import Rule
from strategies.parts.sub_models import Counts, SubModelServer, best
from strategies.rounds.round import Round
from strategies.rounds.server_half import State


class FedMPServer(SubModelServer):
    """A unit counts by the absolute weights into it."""

    @property
    def rule(self) -> Rule:
        """What a device does not hold counts as it was: residual recovery."""
        return "residual"

    def units(self, state: State, round: Round, client: str, counts: Counts) -> Units:
        """Return the units of largest L1 norm."""
        groups = {group.name: group for group in round.model.unit_groups}
        return {name: best(norms(groups[name], state), count) for name, count in counts.items()}


def norms(group: UnitGroup, state: State) -> NDArray[np.float64]:
    """Return of each unit the sum of the absolute weights into it, over all layers that make it."""
    found = np.zeros(group.size)
    for member in group.members:
        # Vectors are biases and norms.
        if member.tensor in state and not member.reads and state[member.tensor].ndim > 1:
            rows = state[member.tensor].abs().movedim(member.axis, 0).flatten(1).sum(1).numpy()
            known = member.owners >= 0
            found += np.bincount(member.owners[known], rows[known], group.size)
    return found
