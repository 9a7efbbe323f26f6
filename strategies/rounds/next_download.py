"""What a run would send a device next, worked out from its saved state alone: nobody is asked."""

from __future__ import annotations

from fedsub_core.models.held import Held
from fedsub_core.models.model import Model
from fedsub_core.wire.bundles import Bundle
from strategies.rounds.nodes import NodeRegistry
from strategies.rounds.population import Population
from strategies.rounds.strategy import PersonalizedStrategy


def next_download(
    strategy: PersonalizedStrategy, client: str, capacity: float
) -> tuple[Model, Bundle]:
    """Return the model that a client's device would hold at a capacity, and what it would be sent.

    `strategy` has been resumed after a round of its run, and is not used for anything else.
    """
    agreed, settings = strategy.memory.agreed, strategy.settings
    assert agreed is not None and strategy.state is not None
    strategy.population = Population(NodeRegistry(), agreed, settings.rounds)

    def model_at(share: float) -> Model:
        seed, classes = settings.rounds.seed, len(agreed.classes)
        return Held.of(strategy.card, settings, seed, agreed.shape, classes, share).model

    strategy.model, own = model_at(1.0), model_at(capacity)
    strategy.transport.sends = strategy.card.sends(strategy.model, strategy.hyper)
    strategy.transport.receives = strategy.card.receives(strategy.model, strategy.hyper)
    strategy.capacities = {client: capacity}
    if capacity < 1 and strategy.card.narrow:
        card, hyper = strategy.card, strategy.hyper
        strategy.narrow = {client: own}
        strategy.transport.narrow = {client: (card.sends(own, hyper), card.receives(own, hyper))}
    turn = strategy.turn(strategy.finished_rounds + 1)
    (sent,) = strategy.tested_with(strategy.state, [client], turn)
    return own, sent
