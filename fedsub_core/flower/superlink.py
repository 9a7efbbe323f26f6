"""Flower's SuperLink: what answers SuperNodes, its command, how its database is opened.

In 1.39 a gRPC servicer answers SuperNodes, at a port of their own. In 1.42 one web application
answers everybody over HTTP.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

from flwr.common.constant import (
    PUBLIC_KEY_HEADER,
    SIGNATURE_HEADER,
    SYSTEM_TIME_TOLERANCE,
    TIMESTAMP_HEADER,
    TIMESTAMP_TOLERANCE,
)
from flwr.server.superlink.fleet.grpc_rere.fleet_servicer import FleetServicer
from flwr.supercore.address import parse_address as address_parts
from flwr.supercore.constant import NodeStatus
from flwr.supercore.date import now
from flwr.supercore.primitives.asymmetric import bytes_to_public_key, verify_signature

from fedsub_core.errors import RunError
from fedsub_core.flower.modules import flower_module

__all__ = [
    "PUBLIC_KEY_HEADER",
    "SIGNATURE_HEADER",
    "STAMP_SECONDS",
    "TIMESTAMP_HEADER",
    "FleetServicer",
    "command",
    "database",
    "fleet_address",
    "fleet_authority",
    "fleet_handlers",
    "fleet_keys",
    "parse_address",
    "registered_keys",
    "verified",
]

#: For how long Flower takes a signed time for good, from the earliest moment to the last.
STAMP_SECONDS = TIMESTAMP_TOLERANCE + 2 * SYSTEM_TIME_TOLERANCE


def command(*names: str) -> Any:
    """Return the module of the command `flower_superlink`; raises as :func:`flower_module`."""
    return flower_module("flwr.superlink.cli.flower_superlink", *names)


def fleet_handlers(*names: str) -> Any:
    """Return the module that answers SuperNodes in 1.42; raises as :func:`flower_module`."""
    return flower_module("flwr.superlink.servicer.fleet.fleet_handlers", *names)


def fleet_address(app: Any) -> str | None:
    """Return the `--fleet-api-address` of the web application of 1.42's SuperLink.

    Without the option it is Flower's default; None where the SuperLink simulates its nodes.
    """
    address: str | None = app.state.superlink_lifespan.config.fleet_api_address
    return address


def registered_keys(state: Callable[[], Any]) -> Callable[[], list[bytes]]:
    """Return a reader of the public keys that a SuperLink's state has, and has not unregistered."""

    def read() -> list[bytes]:
        nodes = state().get_node_info()
        return [node.public_key for node in nodes if node.status != NodeStatus.UNREGISTERED]

    return read


def fleet_keys(app: Any) -> Callable[[], list[bytes]] | None:
    """Return a reader of the registered keys of 1.42's SuperLink; None if any may come."""
    if not app.state.superlink_lifespan.config.enable_supernode_auth:
        return None
    return registered_keys(lambda: app.state.linkstate_factory.state())


def fleet_authority(app: Any) -> bytes:
    """Return the authority's certificate that 1.42's SuperLink was given, PEM; empty for none."""
    path = app.state.superlink_lifespan.config.ssl_ca_certfile
    return Path(path).read_bytes() if path else b""


def verified(key: bytes, stamp: str, signature: bytes) -> bool:
    """Return whether a public key has signed the time `stamp`, and that is now, as Flower sees it.

    Parameters
    ----------
    stamp : in ISO's form.
    """
    try:
        age = (now() - datetime.fromisoformat(stamp)).total_seconds()
        timely = -SYSTEM_TIME_TOLERANCE < age < TIMESTAMP_TOLERANCE + SYSTEM_TIME_TOLERANCE
        made = bytes_to_public_key(key)
        return timely and bool(verify_signature(made, stamp.encode("ascii"), signature))
    except (ValueError, TypeError):
        return False


def parse_address(address: str) -> tuple[str, int]:
    """Return host and port of an address as Flower's options take it.

    Raises RunError if it is none.
    """
    found = address_parts(address)
    if found is None:
        raise RunError(f"{address}: got no address, expected HOST:PORT")
    return found[0], found[1]


def database(*names: str) -> Any:
    """Return the module that opens the database; raises as :func:`flower_module`."""
    return flower_module("flwr.supercore.sql_mixin", *names)
