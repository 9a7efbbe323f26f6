"""The table of the report "CA-AFP": groups of people who share no activity, and sparse models.

Raw windows are dealt to 30 clients in three groups (`fedsub data partition --kind hard-clusters`):
`disjoint`, and as in the report, whose clients share windows. Training is the report's as far as it
goes (10 clients a round, three epochs, Adam, three groups, CA-AFP's one pruning at the end, FedMef
without regrowth, a random split with 0.2 tested), with cnn1d instead of its LSTM and 50 rounds for
every method. The report's own numbers are printed beside. Groups are those that a method found: how
many of its members are from each of the true groups, and their mean accuracy.
"""

import tempfile
from argparse import Namespace
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from script import REAL, read_arguments

from fedsub.engines.simulation import train_method
from fedsub_core.config.run_config import RunConfig, read_config
from fedsub_core.data.federation import Federation
from fedsub_core.data.sources import load_federation
from fedsub_core.methods.table import method
from fedsub_core.options import Value, key_values
from fedsub_data.partitions.partitions import counted_partition
from fedsub_papers.partitions.hard_clusters import HardClustersOptions
from fedsub_server.method_summary import MethodSummary
from fedsub_server.results import method_summaries
from fedsub_server.rundb import RunDatabase
from fedsub_server.tables import Column, text_table

METHODS = ("local", "fedavg", "fedchar", "fedmef", "caafp")
TINY = (
    f"--data {REAL}/wisdm-windows --clients 6 --drawn 3 --rounds 5 --epochs 1 --sharing shared"
).split()
LINES = (*(f"{name} " for name in METHODS), "samples placed: ", "report, fedchar ")
#: Mean, standard deviation, least and greatest accuracy, sparsity, and groups, all in percent.
REPORT = {
    "fedchar": (91.62, 12.58, 53.85, 100.0, "0", "83.14, 99.14, 98.72"),
    "fedmef": (36.95, 39.70, 0.0, 100.0, "89.64", "-"),
    "caafp": (82.92, 28.14, 6.67, 100.0, "50.00, 60.62, 60.31", "75.30, 97.30, 99.05"),
}


def hyperparameters(rounds: int) -> dict[str, Value]:
    """Return the report's settings, its phases as shares of the run."""
    after = max(1, rounds // 5)
    return {
        "fedchar.lam": 0.01,
        "fedchar.cluster-round": after,
        "fedmef.grow": False,
        "caafp.schedule": "one-shot",
        "caafp.cluster-round": after,
        "caafp.linkage": "complete",
        # Sparsity follows from them in the report, whose server has all data.
        "caafp.label-counts": True,
    }


def configured(arguments: Namespace) -> RunConfig:
    """Return one configuration for all methods."""
    first, *others = arguments.methods.split(",")
    names = {method(name).name for name in (first, *others)}
    keys: dict[str, Value] = {
        key: value
        for key, value in hyperparameters(arguments.rounds).items()
        if key.partition(".")[0] in names
    }
    shared: dict[str, Value] = {
        "method": first,
        "beside": ",".join(others),
        "model": "cnn1d",
        "split": "stratified",
        "test-share": 0.2,
        "standardise": "federation",  # as the printed tables were measured
        "rounds": arguments.rounds,
        "clients-per-round": arguments.drawn,
        "epochs": arguments.epochs,
        "optimiser": arguments.optimiser,
        "lr": arguments.lr,
        "seed": arguments.seed,
        "evaluate-every": arguments.rounds,
    }
    return read_config(
        None, {**shared, **keys, **key_values(arguments.set, "--set", "fedchar.lam=1")}
    )


def found_groups(folder: Path, federation: Federation) -> str:
    """Return each found group's members by true group, and their mean accuracy, percent."""
    # A true group is known by its least class: groups share none.
    least = {name: int(data.y.min()) for name, data in federation.clients.items()}
    true = {label: place for place, label in enumerate(sorted({y // 2 for y in least.values()}))}
    with RunDatabase(folder / "state.db") as database:
        accuracy = {row.client: row.value for row in database.metrics("accuracy")}
        group = {row.client: int(row.value) for row in database.metrics("group")}
    said = []
    for found in sorted(set(group.values())):
        members = [client for client, own in group.items() if own == found]
        places = [true[least[client] // 2] for client in members]
        sizes = "+".join(map(str, np.bincount(places, minlength=len(true))))
        said.append(f"{sizes}: {100 * np.mean([accuracy[c] for c in members]):.2f}")
    return ", ".join(said) or "-"


def percent(value: float | None) -> str:
    """Return a share as percent."""
    return "-" if value is None else f"{100 * value:.2f}"


def columns(groups: Mapping[str, str]) -> Sequence[Column]:
    """Return the report's columns."""
    return (
        Column("\nmethod", lambda s: s.method, is_text=True),
        Column("accu-\nracy, %", lambda s: percent(s.accuracy)),
        Column("\nstd", lambda s: percent(s.accuracy_std)),
        Column("\nmin", lambda s: percent(s.accuracy_min)),
        Column("\nmax", lambda s: percent(s.accuracy_max)),
        Column("zeros, %\nweights", lambda s: percent(s.sparsity_weights)),
        Column("\nall", lambda s: percent(s.sparsity_all)),
        Column(
            "found groups: people of each\ntrue one, accuracy", lambda s: groups[s.method], True
        ),
    )


def train_all(
    config: RunConfig, federation: Federation
) -> tuple[list[MethodSummary], dict[str, str]]:
    """Train every method; return what each reached and the groups that it found."""
    with tempfile.TemporaryDirectory() as temporary:
        root = Path(temporary)
        for name in config.methods:
            train_method(config, name, federation, root / name, lambda round: None)
        groups = {name: found_groups(root / name, federation) for name in config.methods}
        summaries = sorted(method_summaries(root), key=lambda s: config.methods.index(s.method))
        return summaries, groups


def main() -> None:
    arguments = read_arguments(
        TINY,
        data=f"{REAL}/wisdm-windows",
        methods=(",".join(METHODS), "of `fedsub methods`"),
        rounds=50,
        clients=30,
        drawn=(10, "clients in a round; 0 = all"),
        epochs=3,
        optimiser="adam",
        lr=0.001,
        sharing="disjoint,shared",
        seed=0,
        set=[],
    )
    config = configured(arguments)
    people = load_federation(arguments.data)
    for sharing in arguments.sharing.split(","):
        options = HardClustersOptions(arguments.clients, disjoint=sharing != "shared")
        made = counted_partition(people, "hard-clusters", options, arguments.seed)
        print(
            f"\n{arguments.data}, {sharing}: {arguments.clients} clients, "
            f"{arguments.rounds} rounds, {arguments.optimiser} {arguments.lr:g}, "
            f"seed {arguments.seed}"
        )
        print("".join(f"{what}: {count:,}\n" for what, count in made.counts.items()), flush=True)
        summaries, groups = train_all(config, made.federation)
        print(text_table(summaries, columns(groups)), flush=True)
    print()
    for name, (mean, std, least, most, zeros, means) in REPORT.items():
        print(
            f"report, {name} {mean:.2f}, std {std:.2f}, min {least:.2f}, max {most:.2f}, "
            f"zeros in two layers {zeros}, groups {means}"
        )


if __name__ == "__main__":
    main()
