"""Modules of Flower's in which something is replaced, and the release that this was written for."""

from __future__ import annotations

from importlib import import_module
from importlib.metadata import version
from typing import Any

from fedsub_core.errors import RunError

#: The releases whose processes of a deployment can be replaced: their SuperNodes speak gRPC.
DEPLOYS = "1.39"


def demand_deployable() -> None:
    """Refuse a Flower whose processes ours were not written for.

    A guard that Flower no longer asks is none, and nobody would notice.

    Raises
    ------
    RunError
        Names both releases.
    """
    got = version("flwr")
    if not f"{got}.".startswith(f"{DEPLOYS}."):
        raise RunError(
            f"flwr: got {got}, expected {DEPLOYS}: this program stands in for parts of Flower that "
            "are others there. pip install -c constraints.txt flwr"
        )


def flower_module(module: str, *names: str) -> Any:
    """Return a module of Flower's that has these names, which are to be replaced.

    Raises
    ------
    RunError
        If it no longer has one of them.
    """
    # A package can give a module's name to a function in it: no import statement.
    found = import_module(module)
    for name in names:
        if not hasattr(found, name):
            raise RunError(f"flwr: its {module} has no {name} to replace; expected flwr {DEPLOYS}")
    return found
