"""The command line: ``fedsub run``, ``methods``, ``data``, ``deploy``, ``predict``, ..."""

import logging
import sys
import tempfile
import traceback

import click
from rich.console import Console
from rich.logging import RichHandler

from fedsub.commands.adapt import adapt
from fedsub.commands.compare import compare
from fedsub.commands.data import data
from fedsub.commands.deploy import deploy
from fedsub.commands.device import export, predict
from fedsub.commands.doctor import doctor
from fedsub.commands.examples import add_examples
from fedsub.commands.forget import forget
from fedsub.commands.join import device
from fedsub.commands.methods import methods
from fedsub.commands.models import models
from fedsub.commands.nearest import Group
from fedsub.commands.new import new
from fedsub.commands.predictions import predictions
from fedsub.commands.report import report
from fedsub.commands.run import run
from fedsub.commands.serve import serve
from fedsub.commands.status import status
from fedsub_core.errors import FedSubError, cut
from fedsub_core.extras import EXTRAS, lacking
from fedsub_core.version import VERSION


@click.group(
    cls=Group, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100}
)
@click.version_option(VERSION, prog_name="fedsub")
def cli() -> None:
    """Personalised federated learning: every person gets a model of their own.

    Start with `fedsub run`: it trains FedSub, local training and FedAvg on real smartwatch data
    that comes with the installation, and prints how they compare.
    """
    logging.basicConfig(
        level=logging.WARNING,
        format="%(message)s",
        handlers=[RichHandler(console=Console(stderr=True), show_path=False)],
    )


COMMANDS = (
    run, compare, status, report, methods, models, new, data, deploy, serve, device, forget,
    predict, export, adapt, predictions, doctor,
)  # fmt: skip
for command in COMMANDS:
    cli.add_command(command)
add_examples(cli, "fedsub")


def main() -> None:
    """Run the command line; whatever goes wrong is said in words, and never by a traceback."""
    try:
        cli()
    except Exception as error:
        click.echo(f"fedsub: {_in_words(error)}", err=True)
        sys.exit(2)


def _in_words(error: Exception) -> str:
    if isinstance(error, FedSubError):
        return str(error)
    module = (getattr(error, "name", None) or "").partition(".")[0]
    if isinstance(error, ModuleNotFoundError) and module in EXTRAS:
        return str(lacking("this command", module))
    if isinstance(error, OSError):
        return f"{error.filename}: {error.strerror}" if error.filename else cut(error)
    with tempfile.NamedTemporaryFile("w", prefix="fedsub-", suffix=".log", delete=False) as file:
        traceback.print_exception(error, file=file)
    return (
        f"stopped by an error ({type(error).__name__}: {cut(error)}). If no file that it reads was "
        f"changed, this is an error in FedSub: please report it, with {file.name}"
    )
