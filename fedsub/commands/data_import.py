"""``fedsub data import``: a person's own tables as a federation."""

from __future__ import annotations

from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any

import click
from rich.box import SIMPLE_HEAD
from rich.table import Table

from fedsub.commands.declared import options_of
from fedsub.commands.inspecting import inspected
from fedsub.commands.progress import progress
from fedsub.commands.terminal import FOLDER, console
from fedsub_core.errors import ConfigError
from fedsub_core.options import read_options
from fedsub_data.importing.options import ImportOptions

if TYPE_CHECKING:
    from fedsub_data.importing.dropped import Dropped

#: People of whom it is printed what was dropped; the folder's record has all.
_SHOWN = 20


@click.command("import", short_help="Turn your own tables into a federation.")
@click.argument("files", nargs=-1, required=True)
@click.option("--out", type=FOLDER, help="new folder; written completely or not at all")
@click.option(
    "--into",
    type=FOLDER,
    help="a federation's folder, to which newer recordings are added as it was made, or none",
)
@click.option(
    "--new-classes",
    type=click.Choice(["stop", "add"]),
    help="with --into: classes that the folder lacks are refused, or added [default: stop]",
)
@click.option(
    "--inspect/--no-inspect", default=True, help="also run `fedsub data inspect` at the end"
)
@options_of(ImportOptions)
def import_(
    files: tuple[str, ...],
    out: Path | None,
    into: Path | None,
    new_classes: str | None,
    inspect: bool,
    **given: str | None,
) -> None:
    """Turn FILES (CSV, TSV, Parquet, .ts, .npz, .mat; also folders, patterns) into a federation.

    If there is a time column or --rate, rows are raw signals and are cut into windows. Otherwise
    each row is a sample. Columns are guessed by their names, and the guesses are printed. For what
    is dropped, the counts by person, the first place and the option that decides it are printed.

    \b
    fedsub data import walks.csv --out walks
    fedsub data import 'rec/s*.csv' --from-name 's(\\d+)' --window 2.56s --out walks
    fedsub data import new.csv --into walks
    """  # noqa: D301  # click reads the backspace
    from fedsub_data.importing.adding import add_files
    from fedsub_data.importing.importing import import_files
    from fedsub_data.importing.resampled import resampled_sentences

    folder = _folder(out, into, new_classes)
    texts = {key.replace("_", "-"): value for key, value in given.items() if value is not None}
    options = read_options(ImportOptions, texts, "data import")
    with progress(console, "people", ["import"]) as tell:

        def show(done: int, of: int) -> None:
            tell("import", done, of)

        made = (
            import_files(files, folder, options, show)
            if into is None
            else add_files(files, folder, options, texts, new_classes == "add", show)
        )
    for note in made.notes:
        _say(note)
    resampled = made.dropped.resampled.by_person()
    for line in (*resampled_sentences(resampled), *made.dropped.sentences()):
        _say(line)
    if made.dropped.counts:
        console.print(_by_person(made.dropped))
    added = "" if into is None else "added to "
    _say(f"{made.people} clients, {made.samples:,} samples: {added}{folder}")
    if inspect:
        inspected(str(folder))
    regression = " --method fedsub-ridge --beside local --loss squared" if made.card.target else ""
    _say(f"Train on it: fedsub run --data {quote(str(folder))}{regression}")


def _folder(out: Path | None, into: Path | None, new_classes: str | None) -> Path:
    """Return the one folder to write; raise ConfigError where none or two are given."""
    folder = out or into
    if folder is None or (out and into):
        got = "both" if out and into else "neither"
        raise ConfigError(f"got {got} --out and --into, expected one of them")
    if new_classes and into is None:
        raise ConfigError(f"new-classes: got {new_classes} without --into, expected it with that")
    return folder


def _say(text: str) -> None:
    console.print(text, soft_wrap=True, markup=False, highlight=False)


def _by_person(dropped: Dropped) -> Table:
    """Return a table of people by lost samples, and why: the most first."""
    whys = list(dropped.counts)
    people: dict[str, int] = {}
    for by in dropped.counts.values():
        for person, count in by.items():
            people[person] = people.get(person, 0) + count
    table = Table(box=SIMPLE_HEAD)
    table.add_column("dropped")
    for why in whys:
        table.add_column(why.value[0], justify="right")
    ordered: list[Any] = sorted(people, key=lambda person: (-people[person], person))
    for person in ordered[:_SHOWN]:
        counts = (dropped.counts[why].get(person, 0) for why in whys)
        table.add_row(person or "nobody", *(f"{n:,}" if n else "-" for n in counts))
    if len(ordered) > _SHOWN:
        table.caption = f"{len(ordered) - _SHOWN} people more: preparation.json"
    return table
