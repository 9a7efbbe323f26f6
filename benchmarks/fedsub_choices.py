"""What FedSub's choices cost and give on a real federation: relevance rules, clusters, fusions.

Two tables: bytes up as multiples of the full model for each relevance rule over `--bytes-rounds`
rounds, and results of `local`, of `fedavg` and of every way to select K, to fuse and to
read the fusions after `--rounds` rounds.
"""

import tempfile
from collections.abc import Mapping
from pathlib import Path

from script import REAL, read_arguments
from trained import first_people

from fedsub.engines.simulation import train_method
from fedsub_core.config.run_config import read_config
from fedsub_core.data.federation import Federation
from fedsub_core.methods.fedsub import FUSIONS, READINGS
from fedsub_core.options import Value
from fedsub_server.method_summary import MethodSummary
from fedsub_server.rundb import RunDatabase
from fedsub_server.summaries import summarise_method

BYTES: list[dict[str, Value]] = [
    {"fedsub.relevance": "naive"},
    {"fedsub.relevance": "lrp-a1b0"},
    {"fedsub.relevance": "lrp-a2b1"},
    {"fedsub.relevance": "lrp-a2b1", "fedsub.lrp-start": "target"},
]
FUSED: list[dict[str, Value]] = [
    {"fedsub.k-selection": rule, "fedsub.fusion": fusion}
    for rule in ("dbi", "dbi-capped")
    for fusion in FUSIONS
]
#: Fig. 7 of the paper.
READ: list[dict[str, Value]] = [
    {"fedsub.k-selection": rule, "fedsub.fusion": fusion, "fedsub.fusion-reading": reading}
    for rule in ("dbi", "dbi-capped")
    for fusion in ("leadership", "avg")
    for reading in READINGS[1:]
]
RESULTS: list[dict[str, Value]] = [
    {"method": "local"},
    {"method": "fedavg"},
    *FUSED,
    *READ,
    {"fedsub.k-selection": "dbi", "fedsub.impute": True},
    {"fedsub.k-selection": "silhouette"},
    {"fedsub.k-selection": "fixed:3"},
]


def label(keys: Mapping[str, Value]) -> str:
    """Return the values that set a row apart."""
    return " ".join(f"{k.removeprefix('fedsub.')}={v}" for k, v in keys.items())


TINY = ["--data", f"{REAL}/wisdm", "--clients", "3", "--rounds", "2", "--bytes-rounds", "1"]
LINES = (*(f"{label(keys)} " for keys in (*BYTES, *RESULTS)),)


def run(
    people: Federation, folder: Path, local: Path | None, keys: Mapping[str, Value]
) -> MethodSummary:
    """Train one method of one configuration in a folder of its own and summarise it."""
    # As the printed tables were measured.
    config = read_config(None, {"beside": "", "standardise": "federation", **keys})
    own = folder / config.method
    train_method(config, config.method, people, own, lambda round: None)
    with RunDatabase(own / "state.db") as database:
        if local is None:
            return summarise_method(database, None)
        with RunDatabase(local / "state.db") as beside:
            return summarise_method(database, beside)


def print_bytes(people: Federation, root: Path, shared: Mapping[str, Value], rounds: int) -> None:
    """Print what every relevance rule uploads."""
    print(f"bytes up per client and round / full model, {rounds} rounds")
    print(f"{'rule':36} {'papers':>8} {'union':>8} {'sent':>8}")
    for i, keys in enumerate(BYTES):
        s = run(people, root / f"bytes{i}", None, {**shared, **keys, "rounds": rounds})
        print(
            f"{label(keys):36} {s.full_models_up_papers:8.2f} {s.full_models_up_union:8.2f} "
            f"{s.full_models_up_sent:8.2f}",
            flush=True,
        )


def print_results(people: Federation, root: Path, shared: Mapping[str, Value], rounds: int) -> None:
    """Print what every choice reaches."""
    print(f"\nafter {rounds} rounds, relevance lrp-a2b1, mean over clients")
    print(f"{'method':66} {'macro F1':>14} {'p10':>6} {'wtd F1':>7} {'loss':>6} {'worse':>6}")
    local: Path | None = None
    for i, keys in enumerate(RESULTS):
        folder = root / f"results{i}"
        s = run(people, folder, local, {**shared, **keys, "rounds": rounds})
        local = local or folder / "local"  # the first of them
        worse = "-" if s.worse_than_twin is None else f"{s.worse_than_twin:.0%}"
        interval = "" if s.macro_f1_ci95 is None else f"± {s.macro_f1_ci95:.3f}"
        print(
            f"{label(keys):66} {s.macro_f1:.3f} {interval:7} "
            f"{s.macro_f1_p10:7.3f} {s.weighted_f1:7.3f} {s.loss:6.3f} {worse:>6}",
            flush=True,
        )


def main() -> None:
    arguments = read_arguments(
        TINY,
        data=f"{REAL}/wisdm",
        rounds=60,
        bytes_rounds=30,
        split="stratified",
        clients=(0, "the first ones alone; 0 = all"),
    )
    people = first_people(arguments.data, arguments.clients)
    shared: dict[str, Value] = {"data": arguments.data, "split": arguments.split}
    with tempfile.TemporaryDirectory() as temporary:
        root = Path(temporary)
        print(f"{arguments.data}, {len(people.clients)} clients, {arguments.split} split, seed 0\n")
        print_bytes(people, root, shared, arguments.bytes_rounds)
        print_results(people, root, shared, arguments.rounds)


if __name__ == "__main__":
    main()
