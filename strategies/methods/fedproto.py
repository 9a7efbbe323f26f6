"""FedProto, the server half (Tan et al. 2022, algorithm 1): the means of prototypes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from fedsub_core.metrics import MetricRow
from fedsub_core.wire.bundles import Bundle
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
from strategies.rounds.server_half import ServerHalf, State


class FedProtoServer(ServerHalf):
    """State: the prototypes, and which there are."""

    def init(self, start: Start) -> State:
        """Return no prototype."""
        return no_prototypes(start.model)

    def downloads(self, state: State, round: Round, clients: Sequence[str]) -> list[Bundle]:
        """Send everybody the prototypes of all classes that have one."""
        return [Bundle(tensors=known_prototypes(state))] * len(clients)

    def check(self, state: State, round: Round, sender: Sender, upload: Bundle) -> None:
        """See :func:`check_prototypes`."""
        check_prototypes(upload, sender.refuse)

    def aggregate(
        self, state: State, round: Round, uploads: Mapping[str, Bundle]
    ) -> tuple[State, list[MetricRow]]:
        """Average each class's prototypes."""
        after = mean_prototypes(state, uploads, self.settings.robust)
        return after, prototype_places(after, uploads, round.turn, self.settings.rounds)


class SummedFedProtoServer(SummedPrototypes, FedProtoServer):
    """The same where the server learns sums alone."""

    def init(self, start: Start) -> State:
        """Return no prototype, and that nobody was counted."""
        return super().init(start) | no_holders(start.model)

    def downloads(self, state: State, round: Round, clients: Sequence[str]) -> list[Bundle]:
        """Send the same, and say what is asked for."""
        return self.asking(round, clients, super().downloads(state, round, clients))
