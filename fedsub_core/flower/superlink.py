"""Flower's SuperLink: what answers SuperNodes, its command, how its database is opened.

Of 1.39. In 1.42 `flwr.superlink.routers.fleet` answers SuperNodes over HTTP.
"""

from __future__ import annotations

from typing import Any

from flwr.common.constant import PUBLIC_KEY_HEADER
from flwr.server.superlink.fleet.grpc_rere.fleet_servicer import FleetServicer

from fedsub_core.errors import RunError
from fedsub_core.flower.modules import DEPLOYS, flower_module

__all__ = ["PUBLIC_KEY_HEADER", "FleetServicer", "command", "database", "link_state"]


def command(*names: str) -> Any:
    """Return the module of the command `flower_superlink`; raises as :func:`flower_module`."""
    return flower_module("flwr.superlink.cli.flower_superlink", *names)


def database(*names: str) -> Any:
    """Return the module that opens the database; raises as :func:`flower_module`."""
    return flower_module("flwr.supercore.sql_mixin", *names)


def link_state(*methods: str) -> Any:
    """Return the class of what a SuperLink writes into its database, which has these methods.

    Raises
    ------
    RunError
        If it no longer has one of them.
    """
    module = "flwr.server.superlink.linkstate.sql_linkstate"
    found = flower_module(module, "SqlLinkState").SqlLinkState
    if missing := [name for name in methods if not hasattr(found, name)]:
        raise RunError(
            f"flwr: its {module}.SqlLinkState has no {missing[0]} to replace; expected flwr "
            f"{DEPLOYS}"
        )
    return found
