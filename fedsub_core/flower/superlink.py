"""Flower's SuperLink: what answers SuperNodes, its command, how its database is opened.

Of 1.39. In 1.42 `flwr.superlink.routers.fleet` answers SuperNodes over HTTP.
"""

from __future__ import annotations

from typing import Any

from flwr.common.constant import PUBLIC_KEY_HEADER
from flwr.server.superlink.fleet.grpc_rere.fleet_servicer import FleetServicer

from fedsub_core.flower.modules import flower_module

__all__ = ["PUBLIC_KEY_HEADER", "FleetServicer", "command", "database"]


def command(*names: str) -> Any:
    """Return the module of the command `flower_superlink`; raises as :func:`flower_module`."""
    return flower_module("flwr.superlink.cli.flower_superlink", *names)


def database(*names: str) -> Any:
    """Return the module that opens the database; raises as :func:`flower_module`."""
    return flower_module("flwr.supercore.sql_mixin", *names)
