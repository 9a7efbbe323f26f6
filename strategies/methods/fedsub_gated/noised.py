"""FedSub with a federated gate where the server's sums get noise, the server half."""

from __future__ import annotations

from collections.abc import Mapping

from fedsub_core.secure.cluster_slots import Array
from fedsub_core.secure.gate_slots import gate_bounds
from strategies.methods.fedsub.noised import NoisedFedSubStrategy
from strategies.methods.fedsub_gated.summed import SummedFedSubGatedStrategy


class NoisedFedSubGatedStrategy(NoisedFedSubStrategy, SummedFedSubGatedStrategy):
    """What the gate learns from has noise, too."""

    def bounds_beside(self) -> Mapping[str, float]:
        """Return how long what the gate learns from is, by name."""
        return gate_bounds(self.hyper)

    def _beyond(self, curves: Array, judged: float, slack: float) -> bool:
        """Whether curves are larger than can be: with noise on them they are of any size."""
        return False
