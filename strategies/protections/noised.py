"""Means with noise: whoever is sent them learns little of any one person."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

from fedsub_core.metrics import MetricRow
from fedsub_core.wire.bundles import Bundle
from strategies.protections.noised_means import NoisedMeans
from strategies.protections.protection import Begun, ProtectedRun, Protection
from strategies.rounds.server_half import State


@dataclass(frozen=True, eq=False)
class Noised(Protection):
    """The mean of a round's uploads, with noise on it."""

    means: NoisedMeans

    @classmethod
    def wanted(cls, run: ProtectedRun) -> Self | None:
        """Return the protection of a run with noise; None: it has none, or nothing is sent."""
        if run.means is None or not run.sends:
            return None
        return cls(run.half, run.connection, run.own_time, run.means)

    def take(
        self, state: State, begun: Begun, uploads: Mapping[str, Bundle]
    ) -> tuple[State, list[MetricRow]]:
        """Let the method take the mean of a round's uploads, as if one person had sent it."""
        if not uploads:
            return state, []
        mean, rows = self.means.of_uploads(uploads, begun.round.sent, begun.round.number)
        with self.own_time:
            state, more = self.half.aggregate(state, begun.round, {"": mean})
        return state, rows + more
