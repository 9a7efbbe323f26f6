"""The beginning of a run: the handshake, what all agree on, and the models that devices hold."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial

from flwr.serverapp import Grid

from fedsub_core.config.halves import ServerSettings
from fedsub_core.data.standardise import Scaling
from fedsub_core.methods.table import method
from strategies.protections.secure_sums import SecureSums
from strategies.protections.standardising import agreed_scaling, features_sent
from strategies.rounds.connection import Connection
from strategies.rounds.context import Earlier
from strategies.rounds.departures import Departures
from strategies.rounds.handshake import agree
from strategies.rounds.link import Link
from strategies.rounds.memory import Memory
from strategies.rounds.nodes import NodeRegistry
from strategies.rounds.population import Population
from strategies.rounds.round import HeldModels
from strategies.rounds.transport import Transport


@dataclass(frozen=True, eq=False)
class Beginning:
    """The beginning of a run, or of its going on: its people, models and secure sums.

    Parameters
    ----------
    connection : to its people.
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


def registry_of(settings: ServerSettings, memory: Memory, departures: Departures) -> NodeRegistry:
    """Return the register of a run's nodes, before any is known."""
    return NodeRegistry(
        identities=memory.identities,
        bound=settings.rounds.identity == "keys",
        version=settings.version,
        given=settings.given,
        departures=departures,
        of_sums=settings.secure.secure_aggregation,
        regression=settings.training.regression,
    )


def connect(
    grid: Grid,
    settings: ServerSettings,
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
    link, rounds, card = Link(grid), settings.rounds, method(settings.method)
    anew = memory.agreed is None
    if memory.agreed is None:
        agreed = agree(
            link, registry, rounds, settings.card, partial(features_sent, settings, card)
        )
        if earlier is None:
            scaling = agreed_scaling(settings, card, registry, agreed, link, sums, known)
        else:
            earlier.check(agreed.classes, agreed.shape)
            scaling = earlier.agreed.scaling
            agreed = replace(agreed, begun_with=earlier.run)
        memory.agreed = replace(agreed, scaling=scaling)
    agreed = memory.agreed
    population = Population(
        registry, agreed, rounds, memory.patience, memory.attendance, memory.left_out
    )
    models = HeldModels.of(settings, card, agreed.shape, len(agreed.classes))
    return Beginning(Connection(link, population, transport, rounds), models, sums, anew)
