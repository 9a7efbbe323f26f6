"""Flower's SuperLink: what answers SuperNodes, its command, how its database is opened.

In 1.39 a gRPC servicer answers SuperNodes, at a port of their own. In 1.42 one web application
answers everybody over HTTP.
"""

from __future__ import annotations

from typing import Any

from flwr.common.constant import PUBLIC_KEY_HEADER
from flwr.server.superlink.fleet.grpc_rere.fleet_servicer import FleetServicer
from flwr.supercore.address import parse_address as address_parts

from fedsub_core.errors import RunError
from fedsub_core.flower.modules import flower_module

__all__ = [
    "PUBLIC_KEY_HEADER",
    "FleetServicer",
    "command",
    "database",
    "fleet_address",
    "fleet_handlers",
    "parse_address",
]


def command(*names: str) -> Any:
    """Return the module of the command `flower_superlink`; raises as :func:`flower_module`."""
    return flower_module("flwr.superlink.cli.flower_superlink", *names)


def fleet_handlers(*names: str) -> Any:
    """Return the module that answers SuperNodes in 1.42; raises as :func:`flower_module`."""
    return flower_module("flwr.superlink.servicer.fleet.fleet_handlers", *names)


def fleet_address(app: Any) -> str | None:
    """Return what `--fleet-api-address` says to the web application of 1.42's SuperLink.

    Without the option it is Flower's default; None where the SuperLink simulates its nodes.
    """
    address: str | None = app.state.superlink_lifespan.config.fleet_api_address
    return address


def parse_address(address: str) -> tuple[str, int]:
    """Return host and port of an address as Flower's options take it.

    Raises
    ------
    RunError
        If it is none.
    """
    found = address_parts(address)
    if found is None:
        raise RunError(f"{address}: got no address, expected HOST:PORT")
    return found[0], found[1]


def database(*names: str) -> Any:
    """Return the module that opens the database; raises as :func:`flower_module`."""
    return flower_module("flwr.supercore.sql_mixin", *names)
