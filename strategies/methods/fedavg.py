"""FedAvg, the server half (McMahan et al. 2017): the mean of models, weighted by samples.

What is averaged is what the card says that devices send: the whole model, or its body.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from fedsub_core.metrics import MetricRow
from fedsub_core.wire.bundles import Bundle, Floats
from strategies.parts.averaging import robust_mean
from strategies.rounds.context import Start
from strategies.rounds.round import Round
from strategies.rounds.server_half import ServerHalf, State


class FedAvgServer(ServerHalf):
    """State: the global tensors by their names in the model."""

    gains_classes = True

    def init(self, start: Start) -> State:
        """Return the global tensors before the first round: the clients' common start."""
        drawn = start.model.init(1, self.settings.rounds.seed)
        return {name: drawn[name][0] for name in start.sends if name in drawn}

    def downloads(self, state: State, round: Round, clients: Sequence[str]) -> list[Bundle]:
        """Send everybody all global tensors."""
        tensors = {name: Floats(tensor.numpy()) for name, tensor in state.items()}
        return [Bundle(tensors=tensors)] * len(clients)

    def aggregate(
        self, state: State, round: Round, uploads: Mapping[str, Bundle]
    ) -> tuple[State, list[MetricRow]]:
        """Average the round's uploads."""
        return self.mean(uploads, state), []

    def mean(self, uploads: Mapping[str, Bundle], state: State) -> State:
        """Return the mean of the global tensors over uploads, filtered as the run is configured."""
        return robust_mean(uploads, state, self.settings.robust)
