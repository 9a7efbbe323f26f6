"""FIARSE, the server half (Wu et al. 2024): one model, whose largest numbers weak devices hold."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from fedsub_core.metrics import MetricRow
from fedsub_core.wire.bundles import Bundle
from fedsub_papers.strategies.parts.elements import ElementServer
from strategies.rounds.round import Round
from strategies.rounds.server_half import State


class FIARSEServer(ElementServer):
    """State: the global tensors, whole."""

    def downloads(self, state: State, round: Round, clients: Sequence[str]) -> list[Bundle]:
        """Send everybody the numbers of highest score, as many as it can hold."""
        shares = [round.capacities[client] for client in clients]
        made = {share: self.part(round, state, share) for share in sorted(set(shares))}
        return [made[share] for share in shares]

    def aggregate(
        self, state: State, round: Round, uploads: Mapping[str, Bundle]
    ) -> tuple[State, list[MetricRow]]:
        """Average each number over those who hold it."""
        if self.hyper.weights == "clients":
            uploads = {client: replace(upload, examples=1) for client, upload in uploads.items()}
        return self.mean(uploads, state), self.counted(round, uploads)
