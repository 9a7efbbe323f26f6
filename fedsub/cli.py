"""The command line: ``fedsub run``, ``fedsub methods``."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.logging import RichHandler
from rich.padding import Padding

from fedsub.commands.data import data
from fedsub.commands.deploy import deploy
from fedsub.commands.device import export, predict
from fedsub.commands.progress import rounds_progress
from fedsub_core.config.run_config import RunConfig, read_config
from fedsub_core.data.sources import absolute_source
from fedsub_core.errors import ConfigError, FedSubError
from fedsub_core.methods.table import METHODS
from fedsub_core.options import Option, describe
from fedsub_core.version import VERSION

console = Console()


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
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


def _config_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add one option per key of the run's configuration."""
    for option in reversed(describe(RunConfig)):
        command = click.option(f"--{option.key}", help=_help(option), metavar=_metavar(option))(
            command
        )
    return command


def _help(option: Option) -> str:
    return f"{option.doc} [default: {option.default if option.default != '' else 'none'}]"


def _metavar(option: Option) -> str:
    return "|".join(option.choices) if option.choices else option.type.__name__.upper()


@cli.command(short_help="Train methods on a federation and compare them.")
@click.argument("config", required=False, type=click.Path(exists=True, dir_okay=False))
@click.option(
    "--resume",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="continue the run in this folder",
)
@click.option(
    "--set",
    "settings",
    multiple=True,
    metavar="METHOD.KEY=VALUE",
    help="a method's hyperparameter, such as fedsub.fusion=avg (see `fedsub methods`)",
)
@_config_options
def run(
    config: str | None, resume: Path | None, settings: tuple[str, ...], **options: str | None
) -> None:
    """Train a method, and others beside it, on a federation in this process.

    CONFIG is a TOML file with the same keys; options on the command line come on top. Prints
    how the methods compare and where the run's folder lies.
    """
    from fedsub.report.results import bytes_table, method_summaries, table
    from fedsub.studies.comparison import compare, load_data, new_folder, open_folder

    overrides: dict[str, Any] = {
        key.replace("_", "-"): value for key, value in options.items() if value is not None
    }
    overrides |= dict(_setting(text) for text in settings)
    if resume is not None:
        if config is not None:
            raise ConfigError("--resume takes the run's own configuration: leave the file out")
        resolved = open_folder(resume, overrides)
    else:
        resolved = read_config(config, overrides)
        resolved = replace(resolved, data=absolute_source(resolved.data))
    federation = load_data(resolved)
    folder = resume or new_folder(resolved)
    with rounds_progress(console) as bar:
        tasks = {n: bar.add_task(n, total=resolved.rounds) for n in resolved.methods}
        compare(
            resolved,
            federation,
            folder,
            lambda name, round: bar.update(tasks[name], completed=round),
        )
    summaries = method_summaries(folder)
    console.print(table(summaries))
    console.print(bytes_table(summaries))
    console.print(f"Run folder: {folder}", soft_wrap=True)


def _setting(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not equals:
        raise ConfigError(f"--set {text}: expected METHOD.KEY=VALUE, such as fedsub.fusion=avg")
    return key.strip(), value.strip()


@cli.command()
def methods() -> None:
    """List the methods: hyperparameters, defaults, paper."""
    for name, row in METHODS.items():
        console.print(f"\n[bold]{name}[/bold]  {row.paper}", highlight=False)
        options = describe(row.hyperparameters)
        if not options:
            console.print("  no hyperparameters of its own", highlight=False)
        for o in options:
            default = str(o.default).lower() if o.type is bool else o.default
            console.print(f"  {name}.{o.key} = {default}", style="bold", highlight=False)
            values = f": {', '.join(o.choices)}" if o.choices else ""
            meaning = Padding(o.doc + values, (0, 0, 0, 6))
            console.print(meaning, highlight=False)


cli.add_command(data)
cli.add_command(deploy)
cli.add_command(predict)
cli.add_command(export)


def main() -> None:
    """Run the command line; errors on purpose are one line, not a traceback."""
    try:
        cli()
    except FedSubError as error:
        click.echo(f"fedsub: {error}", err=True)
        sys.exit(2)
