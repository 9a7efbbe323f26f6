"""The round as it is now: who is connected, and what each of them holds."""

from __future__ import annotations

from fedsub_core.capacity import WHOLE, held_in
from fedsub_core.errors import cut
from fedsub_core.metric_names import CAPACITY
from fedsub_core.metrics import MetricRow
from fedsub_core.models.held import why_unfit
from fedsub_core.turn import Turn
from fedsub_core.wire.encoding import WireSettings
from strategies.rounds.held_models import HeldModels
from strategies.rounds.population import Population
from strategies.rounds.round import OnceLog, Round


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
    found, registry = {}, population.registry
    for client, said in list(registry.introductions.items()):
        capacity = said.facts.capacity
        if why := why_unfit(models.card, wire, models.whole, capacity.share):
            registry.turn_away(client, f"client {client!r}: {why}")
            continue
        found[client] = held_in(models.card, capacity, seed, client, round)
    return found


def capacity_rows(
    population: Population, capacities: dict[str, float], round: int
) -> list[MetricRow]:
    """Return everybody's capacity, where some cannot always hold the whole model."""
    clients = population.clients
    if all(population.facts(client).capacity == WHOLE for client in clients):
        return []
    return [MetricRow(round, c, None, CAPACITY, capacities[c]) for c in clients]
