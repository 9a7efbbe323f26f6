"""pFedMe, the server half (Dinh et al. 2020, algorithm 1): a step towards the clients' mean."""

from __future__ import annotations

from collections.abc import Mapping

from fedsub_core.metrics import MetricRow
from fedsub_core.wire.bundles import Bundle
from strategies.methods.fedavg import FedAvgServer
from strategies.rounds.round import Round
from strategies.rounds.server_half import State


class PFedMeServer(FedAvgServer):
    """FedAvg's, with a rate: ``w = (1 - beta) * w + beta * mean``."""

    def aggregate(
        self, state: State, round: Round, uploads: Mapping[str, Bundle]
    ) -> tuple[State, list[MetricRow]]:
        """Move the global model."""
        mean = self.mean(uploads, state)
        return {name: old.lerp(mean[name], self.hyper.beta) for name, old in state.items()}, []
