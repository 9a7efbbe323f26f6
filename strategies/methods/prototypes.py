"""FedProto and ProtoHAR, the server half: the means of prototypes, and of bodies where they travel.

Tan et al. 2022, algorithm 1; Cheng et al. 2023, algorithm 1.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from fedsub_core.addend_numbers import Array, Bools
from fedsub_core.method_parts.prototypes import ASKED, HOLDERS, PROTOTYPES
from fedsub_core.metrics import MetricRow
from fedsub_core.wire.bundles import Bundle, Floats
from strategies.methods.fedavg import FedAvgServer
from strategies.parts.counted_rows import COUNTED, CountedRows, requested
from strategies.parts.prototype_means import (
    check_prototypes,
    known_prototypes,
    mean_prototypes,
    no_prototypes,
)
from strategies.parts.prototype_places import prototype_places
from strategies.rounds.context import Opened, Sender, Start
from strategies.rounds.round import Round
from strategies.rounds.server_half import State


class PrototypeServer(FedAvgServer):
    """State: the body by its names in the model, if one is sent, and prototypes (``held`` ones)."""

    def init(self, start: Start) -> State:
        """Return the clients' common start, and no prototype."""
        return super().init(start) | no_prototypes(start.model)

    def downloads(self, state: State, round: Round, clients: Sequence[str]) -> list[Bundle]:
        """Send everybody the body, and the prototypes of all classes that have one."""
        body = {name: Floats(tensor.numpy()) for name, tensor in _body(state, round).items()}
        return [Bundle(tensors=body | known_prototypes(state))] * len(clients)

    def check(self, state: State, round: Round, sender: Sender, upload: Bundle) -> None:
        """See :func:`check_prototypes`."""
        check_prototypes(upload, sender.refuse)

    def standardised_anew(self, state: State, start: Start) -> tuple[State, str]:
        """Return the body without prototypes."""
        return state | no_prototypes(start.model), "all classes' prototypes"

    def aggregate(
        self, state: State, round: Round, uploads: Mapping[str, Bundle]
    ) -> tuple[State, list[MetricRow]]:
        """Average the bodies by samples, and each class's prototypes."""
        body = self.mean(uploads, _body(state, round))
        after = mean_prototypes(state, uploads, self.settings.robust)
        return body | after, prototype_places(after, uploads, round.turn, self.settings.rounds)


class SummedPrototypeServer(CountedRows, PrototypeServer):
    """The server half where the server learns sums alone: of each class one over enough people."""

    def init(self, start: Start) -> State:
        """Return no prototype, and that nobody was counted."""
        return PrototypeServer.init(self, start) | self.nobody_counted(start.model)

    def downloads(self, state: State, round: Round, clients: Sequence[str]) -> list[Bundle]:
        """Send body and prototypes, and say what is asked for."""
        return self.asking(round, clients, PrototypeServer.downloads(self, state, round, clients))

    def taken(
        self, state: State, round: Round, opened: Opened, totals: Mapping[str, Array]
    ) -> tuple[State, list[MetricRow]]:
        """Take the mean of bodies, and of each class that was asked for the mean of prototypes."""
        people = state[HOLDERS].numpy()
        # Who lost a class since it was counted may leave fewer people in a sum than were sure.
        shown = (people >= self.settings.secure.secure_least) & requested(round)[ASKED]
        means = totals[PROTOTYPES][shown] / np.maximum(people[shown, None], 1)
        moved = self.moved(round, opened)
        prototypes = {PROTOTYPES: Floats.rows(shown, means.astype(np.float32))}
        mean = Bundle(max(1, moved.examples), tensors={**moved.tensors, **prototypes})
        after, _ = self.aggregate(state, round, {"": mean})
        return state | after, []

    def warn(self, state: State, round: Round, asked: Mapping[str, Bools], least: int) -> None:
        """Log after a count how many classes are left out."""
        if state[COUNTED].any() and (left_out := int((~asked[ASKED]).sum())):
            round.log.warning(
                "no prototypes of %d classes, which fewer than %d people have for sure",
                left_out,
                least,
            )


def _body(state: State, round: Round) -> State:
    """Return the tensors of the body; none where no model travels."""
    names = [name for name in round.sends if name in state and name != PROTOTYPES]
    return {name: state[name] for name in names}
