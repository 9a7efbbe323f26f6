"""FedMP, the server half (Jiang et al. 2022, section III): units of largest norm, R2SP."""

from __future__ import annotations

from collections.abc import Mapping

from fedsub_core.models.units import Units
from fedsub_core.turn import Turn
from strategies.parts.averaging import Rule
from strategies.parts.sub_models import SubModelStrategy, best
from strategies.rounds.server_half import State


class FedMPStrategy(SubModelStrategy):
    """A unit counts by the absolute weights into it."""

    @property
    def rule(self) -> Rule:
        """What a device does not hold counts as it was: residual recovery."""
        return "residual"

    def units(self, state: State, client: str, counts: Mapping[str, int], turn: Turn) -> Units:
        """Return the units of largest L1 norm."""
        return {
            layer: best(state[f"{layer}.weight"].abs().flatten(1).sum(1), count)
            for layer, count in counts.items()
        }
