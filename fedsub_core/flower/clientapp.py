"""Flower's program that answers one message with a ClientApp. The same in 1.39 and in 1.42."""

from __future__ import annotations

from typing import Any

from fedsub_core.flower.modules import flower_module


def clientapp_program() -> Any:
    """Return the module of the program `flwr_clientapp`; raises as :func:`flower_module`."""
    return flower_module("flwr.supernode.cli.flwr_clientapp", "flwr_clientapp")
