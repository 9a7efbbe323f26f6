"""Fingerprints of a federation: by which a run that goes on knows its data again."""

from __future__ import annotations

import hashlib

from fedsub_core.data.card import Card
from fedsub_core.data.federation import Federation

#: Under which key a card's digest stands.
CARD_KEY = "data: card"


def fingerprints(federation: Federation) -> dict[str, str]:
    """Return a digest of the card and of every client's samples, labels, times and order."""
    found = {CARD_KEY: card_digest(federation.card)}
    for client, data in federation.clients.items():
        digest = hashlib.blake2b(digest_size=12)
        for name, array in data.arrays().items():
            digest.update(f"{name} {array.dtype} {array.shape} ".encode())
            digest.update(array.tobytes())
        found[fingerprint_key(client)] = digest.hexdigest()
    return found


def card_digest(card: Card) -> str:
    """Return a digest of a card."""
    kind = [getattr(card, key) for key in ("sample", "vocabulary", "padding")]
    told = repr(card) if kind == [None] * 3 else f"{card!r} {kind}"  # as before there were kinds
    if card.capacities is not None:
        told = f"{told} {card.capacities}"
    if card.sensors is not None:
        told = f"{told} {card.sensors}"
    if card.groups is not None:
        told = f"{told} by {card.groups}"
    return hashlib.blake2b(told.encode(), digest_size=12).hexdigest()


def fingerprint_key(client: str) -> str:
    """Return under which key a client's digest stands."""
    return f"data: client {client}"
