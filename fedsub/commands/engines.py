"""The options that say where training happens, the same for runs and for studies."""

from dataclasses import dataclass

import click

from fedsub.commands.declared import Command, with_options
from fedsub_core.errors import ConfigError


@dataclass(frozen=True)
class EngineAsked:
    """Where training is asked for: ``local``, or ``ray`` on a cluster.

    Raises ConfigError where an address is given to an engine that has none.
    """

    engine: str
    ray_address: str | None

    def __post_init__(self) -> None:
        if self.ray_address is not None and not self.on_ray:
            raise ConfigError("--ray-address needs --engine ray: leave it out, or add --engine ray")

    @property
    def on_ray(self) -> bool:
        """Whether a Ray cluster trains."""
        return self.engine == "ray"

    @property
    def options(self) -> list[str]:
        """The options that ask for it."""
        place = [] if self.ray_address is None else ["--ray-address", self.ray_address]
        return ["--engine", self.engine, *place] if self.on_ray else []


def engine_options(what: str) -> Command:
    """Add ``--engine`` and ``--ray-address`` to a command, of whatever is trained."""
    return with_options(
        "engine",
        EngineAsked,
        click.option(
            "--engine",
            type=click.Choice(["local", "ray"]),
            default="local",
            show_default=True,
            help=f"where {what} are trained: on this machine, or on the nodes of a Ray cluster",
        ),
        click.option(
            "--ray-address",
            metavar="HOST:PORT",
            help="the cluster for --engine ray [default: RAY_ADDRESS, or the one that this machine "
            "is in]",
        ),
    )
