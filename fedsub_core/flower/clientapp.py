"""Flower's program that answers one message with a ClientApp. The same in 1.39 and in 1.42."""

from __future__ import annotations

from typing import Any

from flwr.supercore.inflatable.inflatable_utils import ObjectPullError, ObjectUnavailableError

from fedsub_core.flower.modules import enter_bare, flower_module

__all__ = [
    "ObjectPullError",
    "ObjectUnavailableError",
    "clientapp_calls",
    "clientapp_program",
    "loader_of_apps",
    "objects",
]


def clientapp_program() -> Any:
    """Return the module of the program `flwr_clientapp`; raises as :func:`flower_module`."""
    enter_bare("flwr.supernode.cli")
    return flower_module("flwr.supernode.cli.flwr_clientapp", "flwr_clientapp")


def clientapp_calls(*names: str) -> Any:
    """Return the module that calls the SuperNode for a task; raises as :func:`flower_module`."""
    return flower_module("flwr.supernode.runtime.run_clientapp", *names)


def loader_of_apps(*names: str) -> Any:
    """Return the module that loads an app from a bundle; raises as :func:`flower_module`."""
    return flower_module("flwr.clientapp.utils", *names)


def objects(*names: str) -> Any:
    """Return the module that fetches a message's objects; raises as :func:`flower_module`."""
    return flower_module("flwr.supercore.inflatable.inflatable_utils", *names)
