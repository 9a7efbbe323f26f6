"""Commands that make a federation out of another: ``fedsub data partition|evolve|...``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from fedsub.commands.terminal import (
    OUT,
    SEED,
    SETTINGS,
    print_counts,
    print_federation,
    settings_of,
)
from fedsub_core.errors import DataError
from fedsub_core.files import check_new_folder
from fedsub_core.options import option_values, read_options

if TYPE_CHECKING:
    from fedsub_data.preparing.preparation import Prepared


def add_derived(group: click.Group) -> None:
    """Add the commands to `group`."""
    group.add_command(partition)
    group.add_command(evolve)
    group.add_command(statistics)
    group.add_command(parts)


@click.command()
@click.argument("folder")
@click.option(
    "--kind",
    required=True,
    help="natural, dirichlet, pathological or feature-shift; the error for another lists those of "
    "packages, too",
)
@OUT
@SETTINGS
@SEED
def partition(folder: str, kind: str, out: Path, settings: tuple[str, ...], seed: int) -> None:
    """Distribute the samples of the federation in FOLDER to new clients, for experiments.

    The error for an unknown --set key lists the options of the kind.
    """
    from fedsub_core.data.sources import load_federation
    from fedsub_data.partitions.label_skew import label_divergence
    from fedsub_data.partitions.partitions import counted_partition, partition_options
    from fedsub_data.partitions.pool import OVERLAPPING, TORN, UNKNOWN

    options = read_options(partition_options(kind), settings_of(settings), f"partition {kind}")
    check_new_folder(out, DataError)
    made = counted_partition(load_federation(folder), kind, options, seed)
    _write_derived(out, made, folder, f"partition {kind}", options, seed)
    if torn := made.counts.get(TORN, 0):
        unknown = UNKNOWN in made.counts
        pairs = made.counts[UNKNOWN if unknown else OVERLAPPING]
        which = "neighbours, which may overlap," if unknown else "neighbours that overlap"
        click.echo(
            f"Warning: of {pairs:,} pairs of {which} {torn:,} are given to different clients. A "
            "client may be tested on signal that another trains on, so scores of shared models "
            "may look better than they are. --kind natural tears none apart."
        )
    apart = label_divergence(made.federation)
    click.echo(f"Labels: {apart:.3f} nats from everybody's, on average; 0 is no label skew.")


@click.command()
@click.argument("folder")
@OUT
@SETTINGS
@SEED
def evolve(folder: str, out: Path, settings: tuple[str, ...], seed: int) -> None:
    """Make a dynamic scenario from FOLDER: people lack classes at first and get them back.

    Keys of --set: clients=0.6 (share of clients that lose classes), classes=0.8 (largest share of
    its classes that a client loses), every=50 (rounds until it gets the next class back).
    """
    from fedsub_core.data.sources import load_federation
    from fedsub_data.evolution import EvolutionOptions, arrivals
    from fedsub_data.evolution import evolve as lose_classes
    from fedsub_data.preparing.preparation import Counts, Prepared

    options = read_options(EvolutionOptions, settings_of(settings), "evolve")
    check_new_folder(out, DataError)
    federation = lose_classes(load_federation(folder), options, seed)
    counts = Counts()
    for come in arrivals(federation.clients.values()):
        if come.round > 1:
            words = f"samples that come in round {come.round}, to {come.clients} clients"
            counts.add(words, come.samples)
    _write_derived(out, Prepared(federation, counts), folder, "evolve", options, seed)


@click.command()
@click.argument("folder")
@OUT
def statistics(folder: str, out: Path) -> None:
    """Compute features of the windows in FOLDER: five statistics of each channel.

    They are mean, standard deviation, minimum, maximum and energy: 45 features for UCI-HAR's 9
    signals.
    """
    from fedsub_core.data.sources import load_federation
    from fedsub_data.preparing.preparation import Counts, Prepared
    from fedsub_data.statistics import statistics as of_windows

    check_new_folder(out, DataError)
    made, counts = of_windows(load_federation(folder)), Counts()
    counts.add("windows", sum(len(data.y) for data in made.clients.values()))
    _write_derived(out, Prepared(made, counts), folder, "statistics")


@click.command()
@click.argument("folder")
@click.option(
    "--file",
    "table",
    required=True,
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="CSV with the columns person, index (of the sample in the person's file, from 0) and part "
    "(train, validation, test or nothing), such as splits.csv of `fedsub predictions`",
)
@OUT
def parts(folder: str, table: Path, out: Path) -> None:
    """Give each sample of FOLDER the part that a file says, for runs with split = given."""
    from fedsub_core.data.client_data import PARTS
    from fedsub_core.data.sources import load_federation
    from fedsub_data.importing.parts import with_parts
    from fedsub_data.preparing.preparation import Counts, Prepared

    check_new_folder(out, DataError)
    made, counts = with_parts(load_federation(folder), table), Counts()
    for place, name in enumerate(PARTS):
        every = (data.parts for data in made.clients.values())
        counts.add(f"{name} samples", sum(int((p == place).sum()) for p in every if p is not None))
    _write_derived(out, Prepared(made, counts), folder, "parts")


def _write_derived(
    out: Path, made: Prepared, folder: str, how: str, options: Any = None, seed: int | None = None
) -> None:
    from fedsub_core.data.federation import write_federation
    from fedsub_data.preparing.preparation import REPORT_FILE

    report: dict[str, Any] = {"from": Path(folder).name, "made by": how}
    if options is not None:
        report |= {"seed": seed, "options": option_values(options)}
    report["counts"] = made.counts
    files = {REPORT_FILE: json.dumps(report, indent=2) + "\n"}
    write_federation(out, made.federation, files)
    print_counts(made.counts)
    print_federation(made.federation, out)
