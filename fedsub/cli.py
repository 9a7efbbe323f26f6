"""The command line: ``fedsub run``, ``methods``, ``data``, ``deploy``, ``predict``, ..."""

from __future__ import annotations

import logging
import sys

import click
from rich.console import Console
from rich.logging import RichHandler

from fedsub.commands.compare import compare
from fedsub.commands.data import data
from fedsub.commands.deploy import deploy
from fedsub.commands.device import export, predict
from fedsub.commands.forget import forget
from fedsub.commands.methods import methods
from fedsub.commands.nearest import Group
from fedsub.commands.report import report
from fedsub.commands.run import run
from fedsub_core.errors import FedSubError
from fedsub_core.version import VERSION


@click.group(
    cls=Group, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100}
)
@click.version_option(VERSION, prog_name="fedsub")
def cli() -> None:
    """Personalised federated learning: every person ends with a model of their own.

    Start with `fedsub run`: it trains FedSub, local training and FedAvg on real smartwatch data
    that comes with the installation, and prints how they compare.
    """
    logging.basicConfig(
        level=logging.WARNING,
        format="%(message)s",
        handlers=[RichHandler(console=Console(stderr=True), show_path=False)],
    )


for command in (run, compare, report, methods, data, deploy, forget, predict, export):
    cli.add_command(command)


def main() -> None:
    """Run the command line; errors on purpose are one line, not a traceback."""
    try:
        cli()
    except FedSubError as error:
        click.echo(f"fedsub: {error}", err=True)
        sys.exit(2)
