"""Capacities of simulated devices, as the option ``capacity`` says them.

A person's own device says its capacity itself, in its node's config.
"""

from __future__ import annotations

from collections.abc import Sequence

from fedsub_core.errors import ConfigError
from fedsub_core.identifiers import CLIENT_ID_RULE, is_client_id
from fedsub_core.options import read_share, suggestion

EXPECTED = "a share in (0, 1]"


def check_capacities(text: str) -> None:
    """Raise a ConfigError unless `text` says capacities.

    That is one share for everybody, such as ``0.5``; several, ``0.25,0.5,1``, of which clients in
    the order of their ids take the next in turn; or ``anna=0.25,ben=0.5``, and all others hold all.
    """
    _read(text)


def capacities(text: str, clients: Sequence[str]) -> dict[str, float]:
    """Return the capacity of each of `clients`, which are all there are.

    Raises
    ------
    ConfigError
        If `text` names somebody else.
    """
    said, ids = _read(text), sorted(clients)
    if not said[0][0]:
        return {client: said[i % len(said)][1] for i, client in enumerate(ids)}
    for client, _ in said:
        if client not in ids:
            hint = suggestion(client, ids)
            raise ConfigError(
                f"capacity: got client {client!r}, expected one of {len(ids)} in the data.{hint}"
            )
    return dict.fromkeys(ids, 1.0) | dict(said)


def sizes(text: str) -> tuple[float, ...]:
    """Return the shares that `text` says, such as ``1,1/2,1/4``, each once; () of an empty one.

    Raises
    ------
    ConfigError
        If one is no share, or comes twice.
    """
    found = tuple(
        _share(part.strip(), f"size {part.strip()!r}") for part in text.split(",") if text
    )
    if len(set(found)) < len(found):
        raise ConfigError(f"got {text!r}, expected each size once")
    return found


def _read(text: str) -> list[tuple[str, float]]:
    """Return clients and their shares; "" for the client where shares are taken in turn."""
    said = []
    for i, part in enumerate(text.split(",")):
        client, equals, share = part.rpartition("=")
        client = client.strip()
        who = f"client {client!r}" if equals else f"share {i + 1} of {text!r}"
        if equals and not is_client_id(client):
            raise ConfigError(f"got {who}, expected {CLIENT_ID_RULE}")
        said.append((client, _share(share.strip(), who)))
    names = [client for client, _ in said]
    if any(names) and ("" in names or len(set(names)) < len(names)):
        raise ConfigError(
            f"got {text!r}, expected shares alone, or client=share for each client once"
        )
    return said


def _share(text: str, who: str) -> float:
    if (found := read_share(text)) is None:
        raise ConfigError(f"{who}: got {text!r}, expected {EXPECTED}")
    return found
