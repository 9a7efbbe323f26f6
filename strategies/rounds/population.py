"""The clients of a run: who is connected, who is asked, who is held out."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from flwr.serverapp import Grid

from fedsub_core.config.settings import RoundSettings
from fedsub_core.seeds import generator
from fedsub_core.wire.handshake import Facts
from strategies.rounds.agreement import Agreement
from strategies.rounds.handshake import gather
from strategies.rounds.nodes import NodeRegistry


@dataclass
class Population:
    """The clients of a run.

    Parameters
    ----------
    registry : who is connected, under which of Flower's node ids, and what each said of itself.
    agreed : what was agreed on before the first round.
    settings : of the rounds.
    """

    registry: NodeRegistry
    agreed: Agreement
    settings: RoundSettings

    @property
    def nodes(self) -> dict[str, int]:
        """Node id by client id, ascending; those who left keep their last one."""
        return dict(sorted(self.registry.nodes.items()))

    @property
    def clients(self) -> list[str]:
        """Ids of all who ever took part, ascending."""
        return list(self.nodes)

    def facts(self, client: str) -> Facts:
        """Return what is known of a client: its samples, its capacity."""
        return self.registry.introductions[client].facts

    def gather(self, grid: Grid, all_answers: bool = False) -> None:
        """Let nodes join and leave: :func:`strategies.rounds.handshake.gather`."""
        gather(grid, self.registry, self.settings, self.agreed, all_answers)

    def taking_part(self, round: int) -> list[str]:
        """Return who may train in a round: who is connected, but held-out people only late."""
        joined = self._joined(round)
        return [c for c in self._online() if c not in self.agreed.unseen or joined]

    def sample(self, round: int) -> list[str]:
        """Draw a round's clients, from a stream that depends on the seed and the round."""
        clients = self.taking_part(round)
        count = self.settings.clients_per_round
        if not 0 < count < len(clients):
            return clients
        stream = generator(self.settings.seed, "", round, "clients")
        chosen = torch.randperm(len(clients), generator=stream)[:count]
        return [clients[i] for i in sorted(chosen.tolist())]

    def evaluated(self, round: int) -> list[str]:
        """Return who is evaluated in a round: once the held-out people have joined, only they."""
        joined = bool(self.agreed.unseen) and self._joined(round)
        return [c for c in self._online() if (c in self.agreed.unseen) == joined]

    def _online(self) -> list[str]:
        return sorted(self.registry.online)

    def _joined(self, round: int) -> bool:
        late = 0 if self.settings.unseen is None else self.settings.unseen.rounds
        return round > self.settings.rounds - late
