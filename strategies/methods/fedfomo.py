"""FedFomo, the server half (Zhang et al. 2021): remembers whom each client gained from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch

from fedsub_core.methods.fedfomo import GAINS, peer
from fedsub_core.metrics import MetricRow
from fedsub_core.seeds import generator
from fedsub_core.turn import Turn
from fedsub_core.wire.bundles import Bundle, Floats
from strategies.parts.last_models import PAIRS, LastModelsServer
from strategies.rounds.context import Sender
from strategies.rounds.round import Round
from strategies.rounds.server_half import State


class FedFomoServer(LastModelsServer):
    """Sends models of those from whom a client gained most; ``pairs`` are the sums of gains."""

    def downloads(self, state: State, round: Round, clients: Sequence[str]) -> list[Bundle]:
        """Send everybody other clients' last models."""
        models, row = self.models(state), self.roster(state).place
        return [
            Bundle(
                tensors={
                    peer(k, name): Floats(tensor[row[other]].numpy())
                    for k, other in enumerate(self.peers(state, client, round.turn))
                    for name, tensor in models.items()
                }
            )
            for client in clients
        ]

    def peers(self, state: State, client: str, turn: Turn) -> list[str]:
        """Return the peers whose models a client is sent, by what it gained from them.

        Who is equal there is drawn at random, and so is each place with the chance that the round
        leaves for exploring. The same state, client and turn give the same peers.
        """
        roster = self.roster(state)
        stream = generator(turn.seed, client, turn.round, "peers")
        others = [other for other in roster.clients if other != client]
        others = [others[i] for i in torch.randperm(len(others), generator=stream).tolist()]
        if client in roster.place:
            gained = state[PAIRS][roster.place[client]].tolist()
            others.sort(key=lambda other: -gained[roster.place[other]])
        chance = max(0.0, self.hyper.explore - self.hyper.explore_fall * (turn.round - 1))
        count = min(self.hyper.peer_models, len(others))
        draws = torch.rand(2, count, generator=stream, dtype=torch.float64).T.tolist()
        return [
            others.pop(int(which * len(others)) if explores < chance else 0)
            for explores, which in draws
        ]

    def check(self, state: State, round: Round, sender: Sender, upload: Bundle) -> None:
        """Demand that gains are of peers whose models were sent."""
        gains = upload.floats(GAINS)
        sent = len(self.peers(state, sender.client, round.turn))
        if gains[sent:].any():
            expected = f"0 but for the {sent} peers whose models were sent"
            raise sender.refuse("gains", gains.tolist(), expected)

    def aggregate(
        self, state: State, round: Round, uploads: Mapping[str, Bundle]
    ) -> tuple[State, list[MetricRow]]:
        """Keep the round's models, and add up what each client gained from its peers."""
        new = self.updated(state, uploads)
        row = self.roster(new).place
        for client, upload in uploads.items():
            peers = self.peers(state, client, round.turn)
            for other, gain in zip(peers, upload.floats(GAINS).tolist(), strict=False):
                new[PAIRS][row[client], row[other]] += gain
        return new, []
