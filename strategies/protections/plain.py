"""No protection: uploads come themselves, and a round that led everybody astray can be undone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

from fedsub_core.metrics import MetricRow
from fedsub_core.wire.bundles import Bundle
from strategies.protections.protection import Begun, ProtectedRun, Protection
from strategies.rounds.server_half import State
from strategies.rounds.undoing import Undoing


@dataclass(frozen=True, eq=False)
class Plain(Protection):
    """Uploads as they come.

    Parameters
    ----------
    undoing : the last rounds, as they can be undone.
    """

    undoing: Undoing

    @classmethod
    def wanted(cls, run: ProtectedRun) -> Self:
        """Return the protection of a run that asks for nothing else."""
        return cls(run.half, run.connection, run.own_time, run.undoing)

    def take(
        self, state: State, begun: Begun, uploads: Mapping[str, Bundle]
    ) -> tuple[State, list[MetricRow]]:
        """Let the method take a round's uploads."""
        half, round = self.half, begun.round
        placed, sent = (
            {client: half.placed(state, round, client, bundles[client]) for client in uploads}
            for bundles in (uploads, round.sent)
        )
        # First, for a method may change its state in place.
        self.undoing.note(state, placed, sent, round.sends, half.keeps)
        with self.own_time:
            return half.aggregate(state, round, uploads)
