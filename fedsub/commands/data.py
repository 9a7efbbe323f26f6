"""The command line of data sets: ``fedsub data list | show | fetch | prepare | ...``."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click
from rich.box import SIMPLE_HEAD
from rich.padding import Padding
from rich.table import Table

from fedsub.commands.as_json import AS_JSON, print_json
from fedsub.commands.data_import import import_
from fedsub.commands.derived_data import add_derived
from fedsub.commands.inspecting import inspected
from fedsub.commands.nearest import Group
from fedsub.commands.progress import progress
from fedsub.commands.terminal import (
    FOLDER,
    OUT,
    SEED,
    SETTINGS,
    console,
    print_counts,
    print_federation,
    print_options,
    settings_of,
)
from fedsub_core.errors import ConfigError
from fedsub_core.options import read_options
from fedsub_core.packages import by_package

if TYPE_CHECKING:
    from fedsub_data.catalogue.dataset_card import DatasetCard


@click.group(cls=Group, context_settings={"help_option_names": ["-h", "--help"]})
def data() -> None:
    """Get data sets, turn them into federations, and inspect the result."""


@data.command("list")
@AS_JSON
def list_data_sets(as_json: bool) -> None:
    """List the data sets that FedSub can prepare."""
    from fedsub_data.catalogue.catalogue import house_names, names, read_dataset_card
    from fedsub_data.catalogue.installed import installed

    if as_json:
        print_json([asdict(read_dataset_card(name)) for name in names()])
        return
    for package, some in by_package(house_names(), installed()).items():
        if package:
            console.print(f"From the package {package}:", highlight=False)
        console.print(_table([read_dataset_card(name) for name in some]))


def _table(cards: list[DatasetCard]) -> Table:
    result = Table(box=SIMPLE_HEAD)
    for title, how in (("name", "left"), ("size", "right"), ("classes", "right")):
        result.add_column(title, justify=how, no_wrap=True)  # type: ignore[arg-type]
    for title in ("task", "access", "licence"):
        result.add_column(title)
    for card in cards:
        row = (card.holds, str(card.class_count), card.task)
        result.add_row(card.name, *row, card.source.access, card.source.licence)
    return result


@data.command()
@click.argument("name")
@AS_JSON
def show(name: str, as_json: bool) -> None:
    """Show the source of data set NAME, its terms, and how it is prepared."""
    from fedsub_data.catalogue.catalogue import read_dataset_card
    from fedsub_data.preparing.options import options_of

    card = read_dataset_card(name)
    if as_json:
        print_json(asdict(card))
        return
    console.print(f"[bold]{card.name}[/bold]: {card.task}, {card.holds}", highlight=False)
    source = card.source
    rows = [("page", source.page), ("licence", source.licence), ("terms", source.terms)]
    rows += [("access", source.access), ("cite", source.citation)]
    if source.apply is not None:
        rows.append(("apply at", source.apply))
    for file in card.files:
        size = "size not known" if file.bytes is None else f"{file.bytes:,} bytes"
        rows.append((f"file {file.name}", f"{size}, {file.url}"))
    rows += _of_samples(card)
    classes = ", ".join(card.labels.classes) if card.labels is not None else card.class_count
    rows.append(("classes", f"{classes}"))
    rows.append(("in the papers", card.paper.use))
    if card.prepare is not None:
        rows.append(("--source", card.prepare.source))
    for title, text in rows:
        console.print(f"[bold]{title}[/bold]", highlight=False)
        if "://" in text:  # an address must not be broken
            console.print(f"  {text}", highlight=False, soft_wrap=True)
        else:
            console.print(Padding(text, (0, 0, 0, 2)), highlight=False)
    print_options(f"Options of `fedsub data prepare {name} --set`", options_of(name))


def _of_samples(card: DatasetCard) -> list[tuple[str, str]]:
    """Return facts on a sample, as titles and texts."""
    if card.samples is not None:
        parts = ", ".join(card.samples.parts)
        return [("samples", card.samples.shape), ("clients before a partition", parts)]
    assert card.signals is not None and card.windowing is not None  # recordings have both
    rows = []
    for signals in (card.signals, *card.other_signals):
        rate = signals.sampling_rate_hz
        at = "rates differ" if rate is None else f"{rate:g} Hz"
        rows.append((signals.place, f"{', '.join(signals.channels)}; {signals.units}; {at}"))
    cut = card.windowing
    return [*rows, ("windows", f"{cut.window_s:g} s, overlap {cut.overlap:g}")]


@data.command()
@click.argument("name")
@click.option(
    "--to", type=FOLDER, help="folder for the files [default: downloads/NAME, created if missing]"
)
@click.option(
    "--accept-terms", is_flag=True, help="confirm that you have read and accept the terms"
)
def fetch(name: str, to: Path | None, accept_terms: bool) -> None:
    """Download the official files of data set NAME, after showing their terms."""
    from fedsub_data.catalogue.catalogue import read_dataset_card
    from fedsub_data.catalogue.fetch import fetch as fetch_files
    from fedsub_data.catalogue.fetch import terms

    card = read_dataset_card(name)
    click.echo(terms(card))
    folder = to if to is not None else Path("downloads", name)
    files = fetch_files(card, folder, accept_terms, report=click.echo)
    source = files[0] if len(files) == 1 else folder
    click.echo(f"Next: fedsub data prepare {name} --source {source} --out {name}")


@data.command()
@click.argument("name")
@click.option("--source", type=FOLDER, help="the official archive, file or folder")
@OUT
@SETTINGS
@click.option(
    "--workers",
    type=click.IntRange(min=1),
    help="how many people to prepare at once [default: all cores]",
)
def prepare(
    name: str, source: Path | None, out: Path, settings: tuple[str, ...], workers: int | None
) -> None:
    """Turn the official files of data set NAME into a federation: a folder, one file per person.

    Image and text data sets have one file for each official part, graphs one file in all. Then
    `fedsub data partition` distributes their samples to clients.

    `fedsub data show NAME` lists the data set's options, and what to give as --source.
    """
    from fedsub_core.config.run_config import RunConfig
    from fedsub_data.catalogue.catalogue import read_dataset_card
    from fedsub_data.preparing.options import options_of
    from fedsub_data.preparing.preparers import prepare as write_prepared

    card = read_dataset_card(name)
    options = read_options(options_of(name), settings_of(settings), f"data set {name}")
    if source is None:
        if card.source.access != "installed":
            wanted = card.prepare.source if card.prepare is not None else "its official files"
            raise ConfigError(f"--source is missing; for {name} give {wanted}")
        from fedsub_core.data.watch import watch_file

        source = watch_file()
    unit = "people" if card.samples is None else "files"
    with progress(console, unit, [name]) as tell:
        prepared = write_prepared(
            name,
            source,
            out,
            options,
            workers or RunConfig().workers,
            lambda done, total: tell(name, done, total),
        )
    print_counts(prepared.counts)
    print_federation(prepared.federation, out)


@data.command()
@click.argument("folder")
@click.option("--out", type=FOLDER, help="new folder [default: inspections/NAME]")
@SEED
@AS_JSON
def inspect(folder: str, out: Path | None, seed: int, as_json: bool) -> None:
    """Describe the federation in FOLDER: who has what, how similar people are, how classes cluster.

    Writes PNGs, the numbers as JSON, and report.html with all of it. Ends with an error where
    `fedsub run` could not train on it.
    """
    inspected(folder, out, seed, as_json)


data.add_command(import_)
add_derived(data)
