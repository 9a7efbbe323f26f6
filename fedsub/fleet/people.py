"""People of a fleet: each has a stretch of a real person's samples, so a few make many."""

from dataclasses import replace

import numpy as np

from fedsub_core.data.card import Card
from fedsub_core.data.federation import Federation
from fedsub_core.errors import ConfigError
from fedsub_core.seeds import derive_seed

#: Samples of a class at least, where the real person has as many: some are tested.
LEAST = 4


def fleet_of(federation: Federation, people: int, samples: int, seed: int) -> Federation:
    """Return a federation of as many people, with about as many samples each.

    Person after person is made of the next real one: of each class a stretch in the order of the
    file, drawn by the seed. So stretches of the same real person overlap where there are many.

    Raises ConfigError for a card with capacities, which are of real people.
    """
    card = federation.card
    if card.capacities:
        raise ConfigError("data: got a card with capacities of people, expected one without")
    real, width = list(federation.clients.values()), len(str(people))
    clients = {}
    for number in range(people):
        name, source = f"p{number + 1:0{width}d}", real[number % len(real)]
        draw = np.random.default_rng(derive_seed(seed, name, 0, "samples"))
        share = min(1.0, samples / len(source.y))
        rows = []
        for label in np.unique(source.y):
            of_class = np.flatnonzero(source.y == label)
            count = min(len(of_class), max(LEAST, round(share * len(of_class))))
            begin = int(draw.integers(len(of_class) - count + 1))
            rows.append(of_class[begin : begin + count])
        clients[name] = replace(source.part(np.sort(np.concatenate(rows))), client=name)
    return Federation(_renamed(card, people), clients)


def _renamed(card: Card, people: int) -> Card:
    return replace(card, name=f"{card.name}-{people}-people")


def how_made(federation: Federation, fleet: Federation) -> str:
    """Return in a sentence of whose samples a fleet's people are made."""
    real, people = len(federation.clients), len(fleet.clients)
    held = sum(len(one.y) for one in fleet.clients.values())
    there = sum(len(one.y) for one in federation.clients.values())
    return (
        f"{people:,} people are made of {real} real ones ({federation.card.name}): each has a "
        f"stretch of every class, {held / people:.0f} samples; a sample is used by "
        f"{held / there:.1f} people in the mean"
    )
