"""What FedSub's choices cost and give on a real federation: relevance rules, clusters, fusions.

    python benchmarks/fedsub_choices.py [--data ../shared/data/wisdm] [--rounds 60]

Two tables: bytes up as multiples of the full model for each relevance rule over 30 rounds, and
results of `local`, of `fedavg` and of every way to select K and to fuse after `--rounds` rounds.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

from fedsub.report.results import MethodSummary, summarise_method

from fedsub.engines.simulation import train_method
from fedsub_core.config.run_config import read_config
from fedsub_core.data.federation import Federation
from fedsub_core.data.sources import load_federation
from fedsub_core.methods.fedsub import FUSIONS
from fedsub_server.rundb import RunDatabase

BYTES = [
    {"fedsub.relevance": "naive"},
    {"fedsub.relevance": "lrp-a1b0"},
    {"fedsub.relevance": "lrp-a2b1"},
    {"fedsub.relevance": "lrp-a2b1", "fedsub.lrp-start": "target"},
]
RESULTS = [
    *(
        {"fedsub.k-selection": rule, "fedsub.fusion": fusion}
        for rule in ("dbi", "dbi-capped")
        for fusion in FUSIONS
    ),
    {"fedsub.k-selection": "dbi", "fedsub.impute": True},
    {"fedsub.k-selection": "silhouette"},
    {"fedsub.k-selection": "fixed:3"},
]


def run(people: Federation, folder: Path, local: Path | None, **keys: object) -> MethodSummary:
    """Train one method of one configuration and summarise it."""
    config = read_config(None, {"beside": "", **keys})  # type: ignore[dict-item]
    train_method(config, config.method, people, folder, lambda round: None)
    with RunDatabase(folder / "state.db") as database:
        if local is None:
            return summarise_method(database, None)
        with RunDatabase(local / "state.db") as beside:
            return summarise_method(database, beside)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", default="../shared/data/wisdm")
    parser.add_argument("--rounds", type=int, default=60)
    parser.add_argument("--split", default="stratified")
    arguments = parser.parse_args()
    people = load_federation(arguments.data)
    shared = {"data": arguments.data, "split": arguments.split}
    with tempfile.TemporaryDirectory() as temporary:
        root = Path(temporary)
        print(f"{arguments.data}, {len(people.clients)} clients, {arguments.split} split, seed 0\n")
        print("bytes up per client and round / full model, 30 rounds")
        print(f"{'rule':36} {'papers':>8} {'union':>8} {'sent':>8}")
        for i, keys in enumerate(BYTES):
            s = run(people, root / f"bytes{i}", None, rounds=30, **shared, **keys)
            print(
                f"{label(keys):36} {s.full_models_up_papers:8.2f} {s.full_models_up_union:8.2f} "
                f"{s.full_models_up_sent:8.2f}",
                flush=True,
            )
        print(f"\nafter {arguments.rounds} rounds, relevance lrp-a2b1, mean over clients")
        print(f"{'method':52} {'macro F1':>14} {'p10':>6} {'wtd F1':>7} {'loss':>6} {'worse':>6}")
        local = root / "local"
        for keys in ({"method": "local"}, {"method": "fedavg"}, *RESULTS):
            name = "-".join(label(keys).split()).replace(":", "")
            folder = local if keys == {"method": "local"} else root / name
            beside = None if folder == local else local
            s = run(people, folder, beside, rounds=arguments.rounds, **shared, **keys)
            worse = "-" if s.worse_than_local is None else f"{s.worse_than_local:.0%}"
            print(
                f"{label(keys):52} {s.macro_f1:.3f} ± {s.macro_f1_ci95:.3f} "
                f"{s.macro_f1_p10:7.3f} {s.weighted_f1:7.3f} {s.loss:6.3f} {worse:>6}",
                flush=True,
            )


def label(keys: dict[str, object]) -> str:
    """Return the values that set a row apart."""
    return " ".join(f"{k.removeprefix('fedsub.')}={v}" for k, v in keys.items())


if __name__ == "__main__":
    main()
