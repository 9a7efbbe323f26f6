"""What the commands of data sets share: their options, and what they print."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.padding import Padding
from rich.table import Table

from fedsub_core.options import describe, key_values

if TYPE_CHECKING:
    from fedsub_core.data.federation import Federation

console = Console()
FOLDER = click.Path(path_type=Path)
OUT = click.option(
    "--out", type=FOLDER, required=True, help="new folder; written completely or not at all"
)
SETTINGS = click.option(
    "--set",
    "settings",
    multiple=True,
    metavar="KEY=VALUE",
    help="an option of this command; see above",
)
SEED = click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True)


def settings_of(texts: tuple[str, ...]) -> dict[str, str]:
    """Return keys and values of ``--set``, or raise ConfigError where one is neither."""
    return key_values(texts, "--set", "features=mean")


def print_counts(counts: Mapping[str, int]) -> None:
    """Print what was read, repaired, dropped and kept."""
    result = Table(box=SIMPLE_HEAD)
    result.add_column("what happened")
    result.add_column("count", justify="right")
    for what, count in counts.items():
        result.add_row(what, f"{count:,}")
    console.print(result)


def print_federation(federation: Federation, out: Path) -> None:
    """Print how large a federation is, and where it lies."""
    samples = sum(len(data.y) for data in federation.clients.values())
    made = f"{len(federation.clients)} clients, {samples:,} samples: {out}"
    console.print(made, soft_wrap=True, markup=False)


def print_options(title: str, options: type[Any]) -> None:
    """Print the options of a dataclass under a title, with their meaning."""
    described = describe(options)
    if described:
        console.print(f"[bold]{title}[/bold]", highlight=False)
    for o in described:
        values = f" ({', '.join(o.choices)})" if o.choices else ""
        console.print(Padding(f"{o.key}={o.default}{values}", (0, 0, 0, 2)), highlight=False)
        console.print(Padding(o.doc, (0, 0, 0, 6)), highlight=False)
