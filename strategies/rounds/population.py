"""The clients of a run: who is connected, asked or held out, and the round of who is there."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from statistics import median

import torch

from fedsub_core.capacity import WHOLE, held_in
from fedsub_core.config.participation import BY_ATTENDANCE
from fedsub_core.config.settings import RoundSettings
from fedsub_core.errors import cut
from fedsub_core.metric_names import CAPACITY
from fedsub_core.metrics import MetricRow
from fedsub_core.models.held import why_unfit
from fedsub_core.seeds import derive_seed, generator
from fedsub_core.turn import Turn
from fedsub_core.wire.encoding import WireSettings
from fedsub_core.wire.handshake import Facts
from strategies.rounds.agreement import Agreement
from strategies.rounds.attendance import Attendance
from strategies.rounds.handshake import gather
from strategies.rounds.link import Link
from strategies.rounds.nodes import NodeRegistry
from strategies.rounds.patience import Patience
from strategies.rounds.round import HeldModels, OnceLog, Round


@dataclass
class Population:
    """The clients of a run.

    Parameters
    ----------
    registry : who is connected, under which of Flower's node ids, and what each said of itself.
    agreed : what was agreed on before the first round.
    settings : of the rounds.
    patience : who is asked less often, because it did not answer.
    attendance : how often people are there and answer.
    left_out : who trains no more, because it led the others astray.
    busy : who is not asked, as it works for an earlier round, or did so not long ago.
    working : how many of them work.
    now : s of the link's clock, by which hours go that devices say.
    wall : s since 1970, by which a rest ends; None where rounds alone count.
    """

    registry: NodeRegistry
    agreed: Agreement
    settings: RoundSettings
    patience: Patience = field(default_factory=Patience)
    attendance: Attendance = field(default_factory=Attendance)
    left_out: frozenset[str] = frozenset()
    busy: frozenset[str] = frozenset()
    working: int = 0
    now: float = 0.0
    wall: float | None = None

    @property
    def nodes(self) -> dict[str, int]:
        """Node id by client id, ascending; those who left keep their last one."""
        return dict(sorted(self.registry.nodes.items()))

    @property
    def clients(self) -> list[str]:
        """Ids of all who ever took part, ascending."""
        return list(self.nodes)

    def facts(self, client: str) -> Facts:
        """Return the facts that a client stated: of its samples, its capacity."""
        return self.registry.introductions[client].facts

    def knows(self) -> dict[str, int]:
        """Return the numbers of classes known to clients who do not know all of the run's."""
        said, most = self.registry.introductions, len(self.agreed.classes)
        known = {client: len(one.classes) for client, one in said.items()}
        return {client: n for client, n in known.items() if n < most}

    def usual_examples(self) -> float:
        """Return the median over clients of how many training samples they said that they have."""
        return float(median(each.facts.examples for each in self.registry.introductions.values()))

    def gather(self, link: Link, all_answers: bool = False) -> None:
        """Let nodes join and leave: :func:`strategies.rounds.handshake.gather`."""
        gather(link, self.registry, self.settings, self.agreed, all_answers)

    def taking_part(self, round: int) -> list[str]:
        """Return the clients that may train in a round: connected, and not resting.

        Held-out people join late.
        """
        joined = self._joined(round)
        there = [c for c in self._online() if c not in self.agreed.unseen or joined]
        there = [c for c in there if c not in self.left_out]
        if self.working:  # uploads of theirs are still awaited: nobody's hours need be ignored
            there = self._within_hours(there)
        return self._asked_of([c for c in there if c not in self.busy], round)

    def sample(self, round: int) -> list[str]:
        """Draw a round's clients, from a stream that depends on the seed and the round."""
        clients = self.taking_part(round)
        count = self.settings.asked - self.working
        if not self.settings.asked or count >= len(clients):
            return clients
        if self.settings.by_attendance:
            seed = derive_seed(self.settings.seed, "", round, "clients")
            groups = self.settings.draw == BY_ATTENDANCE
            # Who has less time than a round may take is the less likely to answer. Where it is
            # nobody's hour, all are alike.
            time = {c: min(self.left(c) / self.settings.round_timeout, 1.0) or 1.0 for c in clients}
            return self.attendance.drawn(clients, max(count, 0), round, seed, groups, time)
        stream = generator(self.settings.seed, "", round, "clients")
        chosen = torch.randperm(len(clients), generator=stream)[: max(count, 0)]
        return [clients[i] for i in sorted(chosen.tolist())]

    def evaluated(self, round: int) -> list[str]:
        """Return the clients evaluated in a round: once held-out people have joined, only they."""
        joined = bool(self.agreed.unseen) and self._joined(round)
        there = [c for c in self._online() if (c in self.agreed.unseen) == joined]
        return self._asked_of(there, round)

    def resting(self, round: int) -> list[str]:
        """Return the clients that are connected, and not asked in a round."""
        online = self._online()
        asked = set(self._asked_of(online, round))
        return [client for client in online if client not in asked]

    def _asked_of(self, there: list[str], round: int) -> list[str]:
        """Return those of `there` whose hours it is and who do not rest; all, if it were nobody."""
        there = self._within_hours(there)
        resting = set(self.patience.resting(there, round, self.wall))
        return [client for client in there if client not in resting]

    def _within_hours(self, there: list[str]) -> list[str]:
        return [client for client in there if self.left(client) > 0] or there

    def left(self, client: str) -> float:
        """Return the seconds in which a client may still take part, as its device said."""
        hours = self.facts(client).hours
        return math.inf if hours is None else hours.left(self.now)

    def _online(self) -> list[str]:
        return sorted(self.registry.online)

    def _joined(self, round: int) -> bool:
        late = 0 if self.settings.unseen is None else self.settings.unseen.rounds
        return round > self.settings.rounds - late


def round_now(
    turn: Turn,
    models: HeldModels,
    population: Population,
    wire: WireSettings,
    log: OnceLog,
) -> Round:
    """Return a round of those who are there now; who does not fit is turned away.

    Parameters
    ----------
    log : takes a warning of devices that hold more than they said.
    """
    shares = capacities_of(population, models, wire, turn.seed, turn.round)
    clients = tuple(population.clients)
    round = Round(
        turn=turn,
        models=models,
        capacities=shares,
        clients=clients,
        present=tuple(population.taking_part(turn.round)),
        drawn=tuple(population.sample(turn.round)),
        classes=population.agreed.classes,
        facts={client: population.facts(client) for client in clients},
        log=log,
        knows=population.knows(),
    )
    weak = sorted(client for client, share in shares.items() if share < 1)
    if weak and not round.weakens:
        log.warning(
            "%s: every device holds the whole model, also those that said they hold less: %s",
            models.card.name,
            cut(", ".join(weak)),
        )
    return round


def capacities_of(
    population: Population, models: HeldModels, wire: WireSettings, seed: int, round: int
) -> dict[str, float]:
    """Return the share that each client holds in a round, by what it said; misfits are turned away.

    Who came in another round may hold less.
    """
    shares, registry = {}, population.registry
    for client, introduction in list(registry.introductions.items()):
        capacity = introduction.facts.capacity
        if why := why_unfit(models.card, wire, models.whole, capacity.share):
            registry.turn_away(client, f"client {client!r}: {why}")
            continue
        shares[client] = held_in(models.card, capacity, seed, client, round)
    return shares


def capacity_rows(
    population: Population, capacities: dict[str, float], round: int
) -> list[MetricRow]:
    """Return everybody's capacity, where some cannot always hold the whole model."""
    clients = population.clients
    if all(population.facts(client).capacity == WHOLE for client in clients):
        return []
    return [MetricRow(round, c, None, CAPACITY, capacities[c]) for c in clients]
