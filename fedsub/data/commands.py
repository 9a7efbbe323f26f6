"""The command line of data sets: ``fedsub data list | show | fetch | prepare | ...``."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.padding import Padding
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from fedsub.data.preparing.preparation import REPORT_FILE, Counts, Prepared
from fedsub_core.errors import ConfigError
from fedsub_core.federation import Federation, check_new_folder, write_federation
from fedsub_core.options import describe, option_values, read_options

console = Console()
_FOLDER = click.Path(path_type=Path)
_OUT = click.option(
    "--out", type=_FOLDER, required=True, help="new folder; written completely or not at all"
)
_SET = click.option(
    "--set", "settings", multiple=True, metavar="KEY=VALUE", help="an option; see the list above"
)
_SEED = click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True)


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
def data() -> None:
    """Get data sets, turn them into federations, and look at what came out."""


@data.command("list")
def list_data_sets() -> None:
    """List the data sets that FedSub knows."""
    from fedsub.data.catalogue.catalogue import names, read_dataset_card

    result = Table(box=SIMPLE_HEAD)
    for title, how in (("name", "left"), ("people", "right"), ("classes", "right")):
        result.add_column(title, justify=how, no_wrap=True)  # type: ignore[arg-type]
    for title in ("recognised", "access", "licence"):
        result.add_column(title)
    for name in names():
        card = read_dataset_card(name)
        row = (str(card.people), str(len(card.labels.classes)), card.task)
        result.add_row(name, *row, card.source.access, card.source.licence)
    console.print(result)


@data.command()
@click.argument("name")
def show(name: str) -> None:
    """Say where data set NAME comes from, on which terms, and how it is prepared."""
    from fedsub.data.catalogue.catalogue import read_dataset_card
    from fedsub.data.preparing.preparers import preparer

    card = read_dataset_card(name)
    console.print(f"[bold]{card.name}[/bold]: {card.task}, {card.people} people", highlight=False)
    source = card.source
    rows = [("page", source.page), ("licence", source.licence), ("terms", source.terms)]
    rows += [("access", source.access), ("cite", source.citation)]
    if source.apply is not None:
        rows.append(("apply at", source.apply))
    for file in card.files:
        size = "size not known" if file.bytes is None else f"{file.bytes:,} bytes"
        rows.append((f"file {file.name}", f"{size}, {file.url}"))
    for signals in (card.signals, *card.other_signals):
        rate = signals.sampling_rate_hz
        at = "rates differ" if rate is None else f"{rate:g} Hz"
        rows.append((signals.place, f"{', '.join(signals.channels)}; {signals.units}; {at}"))
    cut = card.windowing
    rows.append(("classes", ", ".join(card.labels.classes)))
    rows.append(("windows", f"{cut.window_s:g} s, overlap {cut.overlap:g}"))
    rows.append(("in the papers", card.paper.use))
    if card.prepare is not None:
        rows.append(("--source", card.prepare.source))
    for title, text in rows:
        console.print(f"[bold]{title}[/bold]", highlight=False)
        if "://" in text:  # an address must not be broken
            console.print(f"  {text}", highlight=False, soft_wrap=True)
        else:
            console.print(Padding(text, (0, 0, 0, 2)), highlight=False)
    _print_options(f"Options of `fedsub data prepare {name} --set`", preparer(name).Options)


@data.command()
@click.argument("name")
@click.option(
    "--to", type=_FOLDER, help="folder for the files [default: downloads/NAME, made if missing]"
)
@click.option("--accept-terms", is_flag=True, help="you have read the terms and accept them")
def fetch(name: str, to: Path | None, accept_terms: bool) -> None:
    """Download the official files of data set NAME, after showing their terms."""
    from fedsub.data.catalogue.catalogue import read_dataset_card
    from fedsub.data.catalogue.fetch import fetch as fetch_files
    from fedsub.data.catalogue.fetch import terms

    card = read_dataset_card(name)
    click.echo(terms(card))
    folder = to if to is not None else Path("downloads", name)
    fetch_files(card, folder, accept_terms, report=click.echo)
    click.echo(f"Next: fedsub data prepare {name} --source {folder} --out {name}")


@data.command()
@click.argument("name")
@click.option("--source", type=_FOLDER, help="the official archive, file or folder")
@_OUT
@_SET
@click.option(
    "--workers", type=click.IntRange(min=1), help="people prepared at once [default: all cores]"
)
def prepare(
    name: str, source: Path | None, out: Path, settings: tuple[str, ...], workers: int | None
) -> None:
    """Turn the official files of data set NAME into a federation: a folder, one file a person.

    `fedsub data show NAME` lists its options and says what to give as --source.
    """
    from fedsub.data.catalogue.catalogue import read_dataset_card
    from fedsub.data.preparing.preparers import prepare as write_prepared
    from fedsub.data.preparing.preparers import preparer
    from fedsub_core.config import RunConfig

    card = read_dataset_card(name)
    options = read_options(preparer(name).Options, _settings(settings), f"data set {name}")
    if source is None:
        if card.source.access != "installed":
            wanted = card.prepare.source if card.prepare is not None else "its official files"
            raise ConfigError(f"--source is missing; for {name} give {wanted}")
        from fedsub_core.watch import watch_file

        source = watch_file()
    with _progress() as bar:
        task = bar.add_task("people", total=None)
        prepared = write_prepared(
            name,
            source,
            out,
            options,
            workers or RunConfig().workers,
            lambda done, total: bar.update(task, completed=done, total=total),
        )
    _print_counts(prepared.counts)
    _print_federation(prepared.federation, out)


@data.command()
@click.argument("folder")
@click.option("--out", type=_FOLDER, help="new folder [default: inspections/NAME]")
@_SEED
def inspect(folder: str, out: Path | None, seed: int) -> None:
    """Draw the federation in FOLDER: who has what, how alike people are, whether classes cluster.

    Writes PNGs, the numbers as JSON, and report.html with all of it.
    """
    from fedsub.data.inspection.inspection import inspect_federation
    from fedsub.data.inspection.page import write_inspection
    from fedsub.data.inspection.tables import tables
    from fedsub_core.sources import load_federation

    federation = load_federation(folder)
    target = out if out is not None else _free(Path("inspections", Path(folder).resolve().name))
    check_new_folder(target)
    inspection = inspect_federation(federation, seed)
    write_inspection(inspection, target)
    console.print(tables(inspection))
    console.print(f"Page: {target / 'report.html'}", soft_wrap=True)


@data.command()
@click.argument("folder")
@click.option(
    "--kind",
    required=True,
    help="natural, dirichlet, pathological, hard-clusters or feature-shift",
)
@_OUT
@_SET
@_SEED
def partition(folder: str, kind: str, out: Path, settings: tuple[str, ...], seed: int) -> None:
    """Deal the samples of the federation in FOLDER out to other clients, for experiments.

    An unknown --set key is answered with the kind's options.
    """
    from fedsub.data.partitions.partitions import counted_partition, partition_options
    from fedsub_core.sources import load_federation

    options = read_options(partition_options(kind), _settings(settings), f"partition {kind}")
    check_new_folder(out)
    made = counted_partition(load_federation(folder), kind, options, seed)
    _write_derived(out, made, folder, f"partition {kind}", options, seed)


@data.command()
@click.argument("folder")
@_OUT
@_SET
@_SEED
def evolve(folder: str, out: Path, settings: tuple[str, ...], seed: int) -> None:
    """Make the dynamic scenario of FOLDER: people lack classes at first and get them back.

    Keys of --set: clients=0.6 (share of clients that lose classes), classes=0.8 (most of its
    classes that a client loses), every=50 (rounds until each gets the next class back).
    """
    from fedsub.data.evolution import EvolutionOptions, arrivals
    from fedsub.data.evolution import evolve as lose_classes
    from fedsub_core.sources import load_federation

    options = read_options(EvolutionOptions, _settings(settings), "evolve")
    check_new_folder(out)
    federation = lose_classes(load_federation(folder), options, seed)
    counts = Counts()
    for round, (samples, clients) in arrivals(federation).items():
        counts.add(f"samples that come in round {round}, to {clients} clients", samples)
    _write_derived(out, Prepared(federation, counts), folder, "evolve", options, seed)


def _write_derived(
    out: Path, made: Prepared, folder: str, how: str, options: Any, seed: int
) -> None:
    report = {
        "from": Path(folder).name,
        "made by": how,
        "seed": seed,
        "options": option_values(options),
        "counts": made.counts,
    }
    files = {REPORT_FILE: json.dumps(report, indent=2) + "\n"}
    write_federation(out, made.federation, files)
    _print_counts(made.counts)
    _print_federation(made.federation, out)


def _settings(texts: tuple[str, ...]) -> dict[str, str]:
    pairs = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not equals:
            raise ConfigError(f"--set {text}: expected KEY=VALUE, such as features=mean")
        pairs[key.strip()] = value.strip()
    return pairs


def _free(folder: Path) -> Path:
    """Return `folder`, or its first numbered sibling that does not exist."""
    number = 1
    free = folder
    while free.exists():
        number += 1
        free = folder.with_name(f"{folder.name}-{number}")
    return free


def _progress() -> Progress:
    columns = (TextColumn("{task.description:>8}"), BarColumn(), MofNCompleteColumn())
    return Progress(*columns, TimeRemainingColumn(), console=console)


def _print_counts(counts: Mapping[str, int]) -> None:
    result = Table(box=SIMPLE_HEAD)
    result.add_column("what happened")
    result.add_column("count", justify="right")
    for what, count in counts.items():
        result.add_row(what, f"{count:,}")
    console.print(result)


def _print_federation(federation: Federation, out: Path) -> None:
    samples = sum(len(data.y) for data in federation.clients.values())
    console.print(f"{len(federation.clients)} clients, {samples:,} samples: {out}", soft_wrap=True)


def _print_options(title: str, options: type[Any]) -> None:
    described = describe(options)
    if described:
        console.print(f"[bold]{title}[/bold]", highlight=False)
    for o in described:
        values = f" ({', '.join(o.choices)})" if o.choices else ""
        console.print(Padding(f"{o.key}={o.default}{values}", (0, 0, 0, 2)), highlight=False)
        console.print(Padding(o.doc, (0, 0, 0, 6)), highlight=False)
