"""FedHome, the server half (Wu et al. 2022): FedAvg, silent while heads train at home."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from fedsub_core.methods.fedhome import trains_heads
from fedsub_core.metrics import MetricRow
from fedsub_core.wire.bundles import Bundle
from strategies.methods.fedavg import FedAvgServer
from strategies.parts.roster import Roster
from strategies.rounds.context import Sender, Start
from strategies.rounds.round import Round
from strategies.rounds.server_half import State

AT_HOME = "at_home"


class FedHomeServer(FedAvgServer):
    """State: FedAvg's, and who has a head of its own (:meth:`Roster.tensor`)."""

    gains_classes = False

    def init(self, start: Start) -> State:
        """Return FedAvg's start; nobody has a head of its own."""
        return super().init(start) | {AT_HOME: Roster(()).tensor()}

    def downloads(self, state: State, round: Round, clients: Sequence[str]) -> list[Bundle]:
        """Send the model to everybody who has no head of its own."""
        at_home, nothing = Roster.of(state[AT_HOME]).place, Bundle()
        model = super().downloads(self._model(state), round, clients)
        return [nothing if c in at_home else one for c, one in zip(clients, model, strict=True)]

    def check(self, state: State, round: Round, sender: Sender, upload: Bundle) -> None:
        """Demand the model, and in the last rounds nothing."""
        heads = trains_heads(self.hyper, sender.turn)
        expected = [] if heads else list(round.sends)
        if sorted(upload.tensors) != sorted(expected):
            got = ", ".join(sorted(upload.tensors)) or "none"
            raise sender.refuse("tensors", got, ", ".join(sorted(expected)) or "none")

    def aggregate(
        self, state: State, round: Round, uploads: Mapping[str, Bundle]
    ) -> tuple[State, list[MetricRow]]:
        """Average models; in the last rounds note who has a head of its own."""
        if not trains_heads(self.hyper, round.turn):
            return state | self.mean(uploads, self._model(state)), []
        roster = Roster.of(state[AT_HOME]).joined(uploads)
        return state | {AT_HOME: roster.tensor()}, []

    def without(self, state: State, client: str) -> State:
        """Forget that a client has a head of its own."""
        return state | {AT_HOME: Roster.of(state[AT_HOME]).without(client).tensor()}

    def _model(self, state: State) -> State:
        return {name: tensor for name, tensor in state.items() if name != AT_HOME}
