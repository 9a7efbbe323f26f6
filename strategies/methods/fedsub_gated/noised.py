"""FedSub with a federated gate where the server's sums get noise, the server half."""

from __future__ import annotations

from collections.abc import Mapping
from math import sqrt

from fedsub_core.methods.fedsub_gated import GATE
from fedsub_core.methods.fedsub_gated_experts import names
from fedsub_core.secure.cluster_slots import Array
from fedsub_core.secure.gate_slots import gate_bounds
from fedsub_core.secure.noised_slots import OF_CLUSTERS
from strategies.methods.fedsub.noised import NoisedFedSubStrategy
from strategies.methods.fedsub_gated.summed import SummedFedSubGatedStrategy


class NoisedFedSubGatedStrategy(NoisedFedSubStrategy, SummedFedSubGatedStrategy):
    """What the gate learns from has noise, too."""

    def bounds_beside(self) -> Mapping[str, float]:
        """Return the bound of each part that the gate learns from."""
        return gate_bounds(self.hyper)

    @property
    def gate_slack(self) -> float:
        """By how much noise may move the sum of the gate's sums, which are one for each expert."""
        parts = OF_CLUSTERS + len(self.layout.beside)
        deviation = self.settings.noise.dp_noise * self.bounds_beside()[GATE] * sqrt(parts)
        return 5 * deviation * sqrt(len(names(self.hyper)) + 1)

    def beyond(self, curves: Array, judged: float, slack: float) -> bool:
        """Whether curves are larger than can be: with noise on them they are of any size."""
        return False
