"""FedSub with a federated gate where the server's sums get noise, the device half."""

from __future__ import annotations

from collections.abc import Mapping

from fedsub_client.methods.fedsub.noised import NoisedSubnetworkLearner
from fedsub_client.methods.fedsub_gated.summed import SummedFedSubGatedLearner
from fedsub_core.secure.gate_slots import gate_bounds


class NoisedFedSubGatedLearner(NoisedSubnetworkLearner, SummedFedSubGatedLearner):
    """Adds up what the gate learns from, too."""

    def bounds_beside(self) -> Mapping[str, float]:
        """Return the bound of each part that the gate learns from."""
        return gate_bounds(self.hyper)
