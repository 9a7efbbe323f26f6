"""The beginning of a run: what it is told, the handshake, its first state, and classes it gains."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from flwr.serverapp import Grid

from fedsub_core.data.standardise import Scaling
from fedsub_core.errors import RunError
from fedsub_core.turn import Turn
from strategies.protections.secure_sums import SecureSums
from strategies.protections.standardising import agreed_scaling, features_sent
from strategies.rounds.connection import Connection
from strategies.rounds.context import Earlier, Start
from strategies.rounds.departures import Departures
from strategies.rounds.handshake import agree
from strategies.rounds.link import Link
from strategies.rounds.memory import Memory
from strategies.rounds.nodes import NodeRegistry
from strategies.rounds.on_disk import put_away
from strategies.rounds.population import Population
from strategies.rounds.round import HeldModels
from strategies.rounds.server_half import ServerHalf, State
from strategies.rounds.transport import Transport

log = logging.getLogger("fedsub")


@dataclass
class Outset:
    """What a run begins with, or goes on with in another process.

    Parameters
    ----------
    classes : as many as the run had, or more; None: those that it had.
    scaling : what another method of the same run standardises by, where that was learnt as a sum: a
        second one, over other people, would tell of those who are in one alone.
    earlier : returns what another run left, with whose models this one begins; None: with new ones.
    roster : the file of a roster of people, which devices are told in the handshake; b"": none.
    run_config : the configuration of the run as Flower hands it to apps, of which devices without
        one are told in the handshake; empty: all have one.
    departures : who will not come back, as far as an earlier process knew, and whom the run forgot.
    """

    classes: tuple[str, ...] | None = None
    scaling: Scaling | None = None
    earlier: Callable[[], Earlier | None] = lambda: None
    roster: bytes = b""
    run_config: Mapping[str, Any] = field(default_factory=dict)
    departures: Departures = field(default_factory=Departures)

    def registry(self, half: ServerHalf, memory: Memory) -> NodeRegistry:
        """Return the register of a run's nodes, before any is known."""
        settings = half.settings
        return NodeRegistry(
            identities=memory.identities,
            bound=settings.rounds.identity == "keys",
            version=settings.version,
            given=settings.given,
            departures=self.departures,
            of_sums=settings.secure.secure_aggregation,
            regression=settings.training.regression,
            roster=self.roster,
            settings=self.run_config,
        )

    def state(
        self, half: ServerHalf, memory: Memory, models: HeldModels, connection: Connection
    ) -> State:
        """Return the state that a run begins with among the clients that are there."""
        population = connection.population
        start = models.start(tuple(population.clients), connection.simulated)
        if (earlier := self.earlier()) is None:
            return half.init(start)
        before, now, rounds = earlier.agreed, population.agreed, half.settings.rounds
        after = half.taken_over(earlier.state, _start(half, memory, len(before.classes)), start)
        after, left_out = half.resumed(after, Turn(0, rounds.rounds, rounds.seed))
        memory.left_out |= set(left_out)
        for client in sorted(earlier.identities.ties.keys() | memory.left_out):
            if client in memory.left_out or client in self.departures.forgotten:
                after = half.without(after, client)
        if before.scaling and now.scaling and before.scaling.bits != now.scaling.bits:
            after, _ = half.standardised_anew(after, start)  # as either run has since been
        return put_away(after, half.keeps)

    def gains_classes(self, memory: Memory) -> bool:
        """Return whether the run has other classes from now on than those that it agreed on."""
        return memory.agreed is not None and self.classes not in (None, memory.agreed.classes)

    def gained_classes(self, half: ServerHalf, memory: Memory, state: State) -> State:
        """Return the state to go on from with the classes of the run's card; note them in `memory`.

        Raises RunError if its card lists others in the first places, or not all that the run had.
        Raises ConfigError if the method cannot go on with more.
        """
        agreed, classes, settings = memory.agreed, self.classes, half.settings
        if not self.gains_classes(memory):
            return state
        assert agreed is not None and classes is not None
        grown = agreed.gaining(classes)
        before, now = (_start(half, memory, len(each)) for each in (agreed.classes, classes))
        state = half.taken_over(state, before, now)
        # Vectors that are added up, or get noise, have as many numbers of everybody.
        alike = settings.secure.secure_aggregation or settings.noise.dp_noise
        memory.agreed = replace(grown, before=()) if alike else grown
        memory.upload_times.again.clear()  # late uploads of before have other shapes
        new = ", ".join(map(repr, classes[len(agreed.classes) :]))
        who = "are turned away until their card has them" if alike else "go on with those they know"
        log.warning("%s: gained classes: %s. Devices without these %s", half.card.name, new, who)
        return state


@dataclass(frozen=True, eq=False)
class Beginning:
    """The beginning of a run, or of its going on: its people, models and secure sums.

    Parameters
    ----------
    models : the run's, and what devices of each capacity hold of it.
    sums : what makes secure sums; None: the run asks for none.
    anew : whether the handshake was held, and not recalled.
    """

    connection: Connection
    models: HeldModels
    sums: SecureSums | None
    anew: bool

    @property
    def summed(self) -> bool:
        """Whether what all standardise by was learnt as a sum."""
        return self.sums is not None and self.connection.population.agreed.scaling is not None


def connect(
    grid: Grid,
    half: ServerHalf,
    memory: Memory,
    transport: Transport,
    registry: NodeRegistry,
    sums: SecureSums | None,
    known: Scaling | None,
    earlier: Earlier | None = None,
) -> Beginning:
    """Hold the handshake, or recall the agreement that the run began with; note it in `memory`.

    Parameters
    ----------
    sums : what makes secure sums; None: the run asks for none.
    known : what another method of the same run standardises by.
    earlier : the run with whose models this one begins: they want samples standardised as there.
    """
    link, settings, card = Link(grid), half.settings, half.card
    anew, rounds = memory.agreed is None, settings.rounds
    if memory.agreed is None:
        features = partial(features_sent, settings, card)
        agreed = agree(link, registry, rounds, settings.card, features)
        if earlier is None:
            scaling = agreed_scaling(settings, card, registry, agreed, link, sums, known)
        else:
            earlier.check(agreed.classes, agreed.shape)
            scaling = earlier.agreed.scaling
            agreed = replace(agreed, begun_with=earlier.run)
        memory.agreed = replace(agreed, scaling=scaling)
    agreed, patience = memory.agreed, memory.patience
    population = Population(registry, agreed, rounds, patience, memory.attendance, memory.left_out)
    models = HeldModels.of(settings, card, agreed.shape, len(agreed.classes))
    return Beginning(Connection(link, population, transport, rounds), models, sums, anew)


def check_renewed(asked: int, renewed: int, finished: int) -> None:
    """Refuse (RunError) to standardise anew before a round that was finished otherwise.

    Parameters
    ----------
    asked, renewed : the round that the run wants it in, and in which it was done; 0: in none.
    """
    if 0 < asked <= finished and asked != renewed:
        raise RunError(
            f"standardise-anew: got round {asked}, expected one after {finished}, which is finished"
        )


def _start(half: ServerHalf, memory: Memory, classes: int) -> Start:
    """Return a start of the run, with so many classes."""
    assert memory.agreed is not None
    return HeldModels.of(half.settings, half.card, memory.agreed.shape, classes).start()
