"""Modules of Flower's in which something is replaced, and the releases this was written for."""

from __future__ import annotations

import sys
from importlib import import_module
from importlib.machinery import PathFinder
from importlib.metadata import version
from importlib.util import module_from_spec
from typing import Any

from fedsub_core.errors import RunError

#: The releases whose processes ours can stand in for. SuperNodes of the first speak gRPC with their
#: SuperLink, those of the second HTTP.
GRPC, HTTP = "1.39", "1.42"


def demand_deployable() -> str:
    """Return the release of the two that is installed, GRPC or HTTP; refuse any other.

    A guard that Flower no longer asks is none, and nobody would notice.

    Raises RunError; names what is installed, and both releases.
    """
    got = version("flwr")
    for series in (GRPC, HTTP):
        if f"{got}.".startswith(f"{series}."):
            return series
    raise RunError(
        f"flwr: got {got}, expected {GRPC} or {HTTP}: this program stands in for parts of Flower "
        "that are others there. pip install -c constraints.txt flwr"
    )


def enter_bare(package: str) -> None:
    """Import a package of Flower's without what it imports itself.

    Its packages of programs import all of these, and so SQLAlchemy, Alembic and Uvicorn: 30 MiB of
    memory, and half a second of a core, in each process that needs but one program.

    Raises RunError if there is no such package.
    """
    if package in sys.modules:
        return
    parent, _, name = package.rpartition(".")
    within = import_module(parent)
    spec = PathFinder.find_spec(package, within.__path__)
    if spec is None:
        raise RunError(f"flwr: it has no {package}; expected flwr {GRPC} or {HTTP}")
    sys.modules[package] = module_from_spec(spec)
    setattr(within, name, sys.modules[package])


def flower_module(module: str, *names: str) -> Any:
    """Return a module of Flower's that has these names, which are to be replaced.

    Raises RunError if it no longer has one of them.
    """
    # A package can give a module's name to a function in it: no import statement.
    found = import_module(module)
    for name in names:
        if not hasattr(found, name):
            raise RunError(
                f"flwr: its {module} has no {name} to replace; expected flwr {GRPC} or {HTTP}"
            )
    return found
