"""The card of a run's data, where it can still be read."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from fedsub_core.config.run_config import RunConfig
from fedsub_core.data.card import Card, read_card
from fedsub_core.data.fingerprint import card_digest
from fedsub_core.data.watch import CARD
from fedsub_core.errors import DataError


def run_card(config: RunConfig, kept: Collection[object], classes: Sequence[str]) -> Card | None:
    """Return the data's card if it can be read and is still the run's.

    Parameters
    ----------
    kept : the card's digests in the run's databases; None of a deployed run, whose data stay on the
        devices: what the server's configuration calls data may be others.
    classes : names that were agreed on in the handshake.
    """
    try:
        card = CARD if config.data == CARD.name else read_card(config.data)
    except DataError:  # moved since, or never here: a deployed run
        return None
    digest = card_digest(card)
    same = {one or digest for one in kept} == {digest} and list(card.classes) == list(classes)
    return card if same else None
