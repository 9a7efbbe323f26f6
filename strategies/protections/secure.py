"""Secure sums: the server learns what people send together, and nobody's own."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Self

from fedsub_core.metrics import MetricRow
from fedsub_core.wire.bundles import Bundle
from strategies.protections.noised_means import NoisedMeans
from strategies.protections.open_sum import TooFew, most_weight
from strategies.protections.protection import Begun, ProtectedRun, Protection
from strategies.protections.secure_sums import SecureSums
from strategies.rounds.context import DrawnNoise
from strategies.rounds.round import Round
from strategies.rounds.server_half import State

log = logging.getLogger("fedsub")


@dataclass(frozen=True, eq=False)
class Secure(Protection):
    """Sums of a round's vectors.

    Parameters
    ----------
    sums : what makes them.
    means : what puts noise on them; None: they get none.
    """

    sums: SecureSums
    means: NoisedMeans | None

    @classmethod
    def wanted(cls, run: ProtectedRun) -> Self | None:
        """Return the protection of a run with sums; None: it has none, or nothing is sent."""
        if run.sums is None or not run.sends:
            return None
        return cls(run.half, run.connection, run.own_time, run.sums, run.means)

    def begin(self, state: State, round: Round, clients: list[str]) -> Begun:
        """Let a round's clients prepare a sum."""
        round = replace(round, vectors={})
        with self.own_time:
            asked = self.half.sum_request(state, round, clients)
        if asked is None:
            return Begun(round, clients)
        promised = self.half.promised_noise(state) if self.means is None else self.means.promised()
        self.sums.transcript.promise(promised)
        round = replace(round, requested=asked)
        try:
            weight, longest = self._most_weight(asked.clients), self.half.settings.noise.longest
            begun = self.sums.begin(self.connection, round.number, asked, weight, longest)
        except TooFew as error:
            if asked.needed:
                raise
            log.warning("round %d: nothing is added up: %s", round.number, error)
            return Begun(round, clients if asked.others else [])
        round = replace(round, vectors=begun.vectors)
        return Begun(round, clients if asked.others else list(begun.vectors), begun)

    def _most_weight(self, clients: Sequence[str]) -> int:
        """Return as how many samples one person counts at most; with noise all count alike."""
        if self.means is not None:
            return 1
        examples = [self.connection.population.facts(client).examples for client in clients]
        return most_weight(examples, self.half.most_examples)

    def take(
        self, state: State, begun: Begun, uploads: Mapping[str, Bundle]
    ) -> tuple[State, list[MetricRow]]:
        """Open the sum of a round's uploads, and let the method take it."""
        round, opened, rows = begun.round, None, list[MetricRow]()
        # Who said nothing before training would make everybody wait once more when tested.
        self.connection.transport.delivery.silent |= begun.left
        if begun.sum is not None:
            vectors = {client: one for client, one in uploads.items() if client in round.in_sum}
            fault = partial(self.half.fault, state, round)
            opened, rows = self.sums.close(self.connection, round.number, begun.sum, vectors, fault)
        drawn = list[DrawnNoise]()
        if self.means is not None and opened is not None:
            if opened.total is not None:
                drawn = [self.means.drawn(opened.total.sum, round.number)]
            opened, more = self.means.of_sum(opened, round.number)
            rows = rows + more
        with self.own_time:
            after, more = self.half.aggregate_sum(state, round, opened, uploads)
        self.sums.transcript.drawn(drawn or self.half.drawn_noise(state, after))
        return after, rows + more
