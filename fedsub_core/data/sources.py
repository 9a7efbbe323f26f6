"""Where a run's data come from: a federation's folder, or the built-in ``watch``."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path

from fedsub_core.data.card import CARD_FILE, Card, read_card
from fedsub_core.data.client_data import ClientData
from fedsub_core.data.client_file import read_client
from fedsub_core.data.federation import (
    Federation,
    client_files,
    read_federation,
    read_outlines,
)
from fedsub_core.data.held_out import check_trainable
from fedsub_core.data.watch import watch_federation
from fedsub_core.errors import DataError

WATCH = "watch"


def absolute_source(source: str) -> str:
    """Return `source` so that it means the same from every working directory."""
    return source if source == WATCH else str(Path(source).resolve())


def load_federation(source: str) -> Federation:
    """Return all clients of `source`, or raise DataError if they cannot be trained on."""
    federation = _watch() if source == WATCH else read_federation(source)
    check_trainable(federation)
    return federation


def load_outlines(source: str, see: Callable[[ClientData, Card], None]) -> Federation:
    """Return `source` without the numbers of its samples; `see` is shown each client with them.

    They are in memory for one client at a time
    (:func:`fedsub_core.data.federation.read_outlines`); raises as :func:`load_federation`.
    """
    if source == WATCH:
        whole = _watch()
        for data in whole.clients.values():
            see(data, whole.card)
        return whole
    federation = read_outlines(source, see)
    check_trainable(federation)
    return federation


def card_here(source: str) -> Card | None:
    """Return the card in the folder `source`, None where this machine has none there.

    Raises DataError if it has one that cannot be read.
    """
    return read_card(source) if Path(source, CARD_FILE).is_file() else None


def client_ids(source: str) -> list[str]:
    """Return the clients of `source`, ascending, without reading their data."""
    if source == WATCH:
        return list(_watch().clients)
    return [path.stem for path in client_files(source)]


def load_client(source: str, client: str) -> tuple[Card, ClientData]:
    """Return one client's data; a device's folder holds no other."""
    if source == WATCH:
        federation = _watch()
        if client not in federation.clients:
            raise DataError(
                f"watch: no client {client!r}, expected {', '.join(federation.clients)}"
            )
        return federation.card, federation.clients[client]
    card = read_card(source)
    return card, read_client(Path(source, "clients", f"{client}.npz"), card)


_watch = cache(watch_federation)
