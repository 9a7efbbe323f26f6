"""ProtoHAR, the server half (Cheng et al. 2023): FedAvg of the bodies, the means of prototypes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from fedsub_core.metrics import MetricRow
from fedsub_core.models.model import Model
from fedsub_core.wire.bundles import Bundle, Floats
from strategies.methods.fedavg import FedAvgServer
from strategies.parts.prototype_means import (
    check_prototypes,
    known_prototypes,
    mean_prototypes,
    no_prototypes,
)
from strategies.parts.prototype_places import prototype_places
from strategies.parts.summed_prototypes import SummedPrototypes, no_holders
from strategies.rounds.context import Sender, Start
from strategies.rounds.round import Round
from strategies.rounds.server_half import State


class ProtoHARServer(FedAvgServer):
    """State: the body by its names in the model, the prototypes, and which there are."""

    def init(self, start: Start) -> State:
        """Return the clients' common start, and no prototype."""
        drawn = start.model.init(1, self.settings.rounds.seed)
        body = {name: drawn[name][0] for name in self._body(start.model)}
        return body | no_prototypes(start.model)

    def downloads(self, state: State, round: Round, clients: Sequence[str]) -> list[Bundle]:
        """Send everybody the body, and the prototypes of all classes that have one."""
        body = {name: Floats(state[name].numpy()) for name in self._body(round.model)}
        return [Bundle(tensors=body | known_prototypes(state))] * len(clients)

    def check(self, state: State, round: Round, sender: Sender, upload: Bundle) -> None:
        """See :func:`check_prototypes`."""
        check_prototypes(upload, sender.refuse)

    def aggregate(
        self, state: State, round: Round, uploads: Mapping[str, Bundle]
    ) -> tuple[State, list[MetricRow]]:
        """Average the bodies by samples, and each class's prototypes."""
        body = self.mean(uploads, {name: state[name] for name in self._body(round.model)})
        after = mean_prototypes(state, uploads, self.settings.robust)
        return body | after, prototype_places(after, uploads, round.turn, self.settings.rounds)

    def _body(self, model: Model) -> tuple[str, ...]:
        return model.parameters_of(model.body(self.hyper.head_layers))


class SummedProtoHARServer(SummedPrototypes, ProtoHARServer):
    """The same where the server learns sums alone."""

    def init(self, start: Start) -> State:
        """Return no prototype, and that nobody was counted."""
        return super().init(start) | no_holders(start.model)

    def downloads(self, state: State, round: Round, clients: Sequence[str]) -> list[Bundle]:
        """Send the same, and say what is asked for."""
        return self.asking(round, clients, super().downloads(state, round, clients))
