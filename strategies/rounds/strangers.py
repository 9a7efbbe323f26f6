"""Devices whose samples are not as the operator's card says."""

from __future__ import annotations

from fedsub_core.data.card import Card
from fedsub_core.data.samples import NODE, TOKENS, facts_of
from fedsub_core.data.sensors import sensors_of
from fedsub_core.errors import cut
from fedsub_core.models.architecture import Shape
from strategies.rounds.nodes import NodeRegistry


def turn_away_strangers(registry: NodeRegistry, card: Card) -> None:
    """Turn away whose classes, or number of features, are not those of the operator's card."""
    for client in sorted(registry.online):
        introduction = registry.introductions[client]
        for what, got, expected in (
            ("classes", introduction.classes, card.classes),
            *_of_samples(introduction.shape, card),
        ):
            if got != expected:
                why = f"{what}: got {cut(got)}, expected {cut(expected)} of the run's card"
                registry.turn_away(client, f"client {client!r}: {why} ({card.name})")
                break


def _of_samples(shape: Shape, card: Card) -> list[tuple[str, object, object]]:
    """Return facts of samples that must be as on the card: what, got, expected."""
    if card.sample != TOKENS:
        return [
            ("graphs", facts_of(shape).get("graphs"), 1 if card.sample == NODE else None),
            ("vocabulary", facts_of(shape).get("vocabulary"), None),
            ("features", shape[0], len(card.features)),
            ("sensors", sensors_of(shape), (len(shape) == 2 and card.sensors) or ()),
        ]
    facts = {"vocabulary": card.vocabulary, "padding": card.padding}
    return [(what, facts_of(shape).get(what), facts[what]) for what in facts]
