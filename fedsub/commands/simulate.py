"""``fedsub deploy simulate``: days of a fleet in virtual time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click
from rich.console import Console

from fedsub.commands.progress import progress
from fedsub_core.config.idle import check_given
from fedsub_core.config.run_config import read_config
from fedsub_core.options import key_values

if TYPE_CHECKING:
    from rich.table import Table

#: Rounds that a run is told that it has, unless --set names them: more than fit into the days.
ROUNDS = 100_000
#: What is printed of days and of kinds of people; all else is in days.csv and people.csv.
DAY_COLUMNS = {"day": "day", "rounds": "rounds", "uploads": "uploads", "served": "served",
               "ever_served": "ever", "f1": "F1", "f1_seldom": "seldom", "late_replies": "late",
               "missing_replies": "missing", "bytes_up": "up", "bytes_down": "down"}  # fmt: skip
KIND_COLUMNS = {"kind": "kind", "people": "people", "there": "there", "uploads": "uploads",
                "never_served": "never served", "f1": "F1"}  # fmt: skip


@click.command(short_help="Simulate days of a fleet whose people come and go.")
@click.argument("config", required=False, type=click.Path(exists=True, dir_okay=False))
@click.option(
    "--people", type=click.IntRange(min=1), default=1000, show_default=True, help="how many"
)
@click.option("--days", type=click.IntRange(min=1), default=30, show_default=True, help="how many")
@click.option(
    "--every",
    type=click.FloatRange(min=0),
    default=8.0,
    show_default=True,
    help="hours from the beginning of a round to that of the next; 0: as soon as one has ended",
)
@click.option(
    "--samples",
    type=click.IntRange(min=8),
    default=40,
    show_default=True,
    help="samples of a person, about; people are made of the data's: each has a stretch of every "
    "class of a real person",
)
@click.option(
    "--faults",
    type=click.FloatRange(min=0, max=1),
    default=0.0,
    show_default=True,
    help="share of messages on which a device crashes, that are lost, or whose answer is garbled",
)
@click.option("--data", help="a federation's folder, or 'watch' for the built-in one")
@click.option("--out", help="folder in which the run's folder is created [default: runs]")
@click.option(
    "--set",
    "settings",
    multiple=True,
    metavar="KEY=VALUE",
    help="any key of a run, such as clients-per-round=50, round-timeout=3600 or seed=1",
)
def simulate(
    config: str | None,
    data: str | None,
    out: str | None,
    settings: tuple[str, ...],
    **asked: Any,
) -> None:
    """Simulate days of a fleet: people come and go, and nobody waits for them.

    CONFIG is a TOML file with the keys of `fedsub run`. Without it the method is fedsub-ridge. Its
    rounds do not count, because the days end the run. The server's rounds, its database, the
    devices and their messages are real. Time, the link and people's habits are not: nights, trains,
    empty batteries, new phones, people who leave, clocks that say 1970. All follows from the seed:
    the same seed gives the same results.

    The command prints days and kinds of people. The run's folder is that of any run, with days.csv
    and people.csv beside.
    """
    from fedsub.fleet.simulate import FleetAsked, simulate_fleet
    from fedsub.report.report import write_report

    given: dict[str, Any] = {"rounds": ROUNDS}
    given |= {"method": "fedsub-ridge"} if config is None else {}
    given |= key_values(settings, "--set", "seed=1")
    given |= {k: v for k, v in {"data": data, "out": out}.items() if v is not None}
    resolved, console = read_config(config, {"beside": "", **given}), Console()
    check_given(resolved, given, "command line")
    fleet = FleetAsked(**asked)
    days = fleet.days
    with progress(console, "days") as tell:
        found = simulate_fleet(resolved, fleet, lambda day: tell(resolved.method, day, days))
    _print(console, found.days.by_day(days), DAY_COLUMNS)
    _print(console, found.days.by_kind(days), KIND_COLUMNS)
    console.print(f"{found.made}.", highlight=False, soft_wrap=True)
    console.print(f"Run folder: {found.folder}", soft_wrap=True, markup=False)
    console.print(f"Report: {write_report(found.folder)[0]}", soft_wrap=True, markup=False)


def _print(console: Console, rows: Sequence[Mapping[str, Any]], titles: Mapping[str, str]) -> None:
    """Print columns of rows as a table, each with its title: as many, from the first, as fit."""
    table = _table(rows, titles)
    while len(table.columns) > 1 and table.__rich_measure__(console, console.options).maximum > (
        console.width
    ):
        titles = dict([*titles.items()][:-1])
        table = _table(rows, titles)
    console.print(table)
    console.print()


def _table(rows: Sequence[Mapping[str, Any]], titles: Mapping[str, str]) -> Table:
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    from fedsub_server.run_folder import humanise_bytes

    table = Table(box=SIMPLE_HEAD, padding=0, show_edge=False)
    for title in titles.values():
        table.add_column(title, justify="right", no_wrap=True)
    for row in rows:
        cells = {name: row[name] for name in titles}
        cells |= {n: humanise_bytes(v) for n, v in cells.items() if n.startswith("bytes")}
        table.add_row(*map(str, cells.values()))
    return table
