"""The options that say where training happens, the same for runs and for studies."""

from __future__ import annotations

from collections.abc import Callable

import click

from fedsub_core.errors import ConfigError


def engine_options(what: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Add ``--engine`` and ``--ray-address`` to a command, of whatever is trained."""
    where = click.option(
        "--engine",
        type=click.Choice(["local", "ray"]),
        default="local",
        show_default=True,
        help=f"where {what} are trained: on this machine, or on the nodes of a Ray cluster",
    )
    address = click.option(
        "--ray-address",
        metavar="HOST:PORT",
        help="the cluster for --engine ray [default: RAY_ADDRESS, or the one that this machine is "
        "in]",
    )

    def add(command: Callable[..., None]) -> Callable[..., None]:
        return where(address(command))

    return add


def check_engine(engine: str, ray_address: str | None) -> None:
    """Raise a ConfigError where an address is given to an engine that has none."""
    if ray_address is not None and engine != "ray":
        raise ConfigError("--ray-address needs --engine ray: leave it out, or add --engine ray")
