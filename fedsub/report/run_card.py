"""The card of a run's data, where it can still be read."""

from __future__ import annotations

from collections.abc import Collection

from fedsub_core.config.run_config import RunConfig
from fedsub_core.data.card import Card, read_card
from fedsub_core.data.fingerprint import card_digest
from fedsub_core.data.watch import CARD
from fedsub_core.errors import DataError


def run_card(config: RunConfig, kept: Collection[object]) -> Card | None:
    """Return the data's card if it can be read and is still the run's.

    `kept` are the card's digests in the run's databases; None, of one before they were kept, is
    any.
    """
    try:
        card = CARD if config.data == CARD.name else read_card(config.data)
    except DataError:  # moved since, or never here: a deployed run
        return None
    digest = card_digest(card)
    return card if {one or digest for one in kept} == {digest} else None
