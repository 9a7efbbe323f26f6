"""Every method at its best of three learning rates, each chosen without the test data.

    python benchmarks/methods.py [--data ../shared/data/wisdm] [--rounds 100] [--train-share 1]
        [--split auto] [--lr 0.005 0.02 0.05] [--seed 0] [--methods fedproto fedhome] [--jobs 2]
        [--out folder]

A rate is chosen by mean macro F1 on a validation part: what of every person's training part the
same split would test. Then the method trains on the whole training part, once, with that rate.
`local` is tuned and stands in every table, and so do variants of some methods. Runs that lie in
`--out` already are not made again. Seconds are in units of fedavg's. The second table counts the
lines of each method's files, its card and its two halves.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import torch

from fedsub.engines.simulation import train_method
from fedsub_client.split_client import split_client
from fedsub_core.config.run_config import RunConfig, read_config
from fedsub_core.data.federation import ClientData, Federation
from fedsub_core.data.sources import load_federation
from fedsub_core.methods.table import METHODS
from fedsub_server.results import DATABASE_FILE, REACHED, Column, method_summaries, text_table
from fedsub_server.rundb import RunDatabase
from fedsub_server.summaries import MethodSummary, summarise_method

ROOT = Path(__file__).resolve().parents[1]
REAL = os.environ.get("FEDSUB_DATA", "../shared/data")
TINY = ["--data", f"{REAL}/wisdm", "--clients", "3", "--rounds", "3", "--lr", "0.05", "0.02"]
TINY += ["--methods", "fedclar", "fedmef", "--jobs", "1"]
#: Beside the methods as they are: what the papers and public code leave open or get wrong.
VARIANTS: dict[str, tuple[str, dict[str, Any]]] = {
    "protohar-repo": ("protohar", {"variant": "repo"}),
    "fedhome-plain": ("fedhome", {"smote": False}),
    "fedmef-static": ("fedmef", {"grow": False}),
    "fedamp-gauss": ("fedamp", {"similarity": "gauss"}),
    "caafp-one-shot": ("caafp", {"schedule": "one-shot"}),
}
#: What the lines of results begin with.
LINES = ("local ", "fedavg ", "fedclar ", "fedmef ")


@dataclass(frozen=True)
class Task:
    """One run: an entry of the table, with a learning rate, to be tuned or at last."""

    entry: str
    lr: float
    tuning: bool

    @property
    def folder(self) -> str:
        """Where it is kept, below the folder of all runs."""
        return f"tuning/{self.lr:g}/{self.entry}" if self.tuning else f"tuned/{self.entry}"


def read_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", default=f"{REAL}/wisdm")
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--train-share", type=float, default=1.0)
    parser.add_argument("--split", default="auto")
    parser.add_argument("--lr", type=float, nargs="+", default=[0.005, 0.02, 0.05])
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--clients", type=int, help="the first so many; all by default")
    parser.add_argument("--methods", nargs="+", help="beside local and fedavg; all by default")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--out", type=Path)
    parser.add_argument("--tiny", action="store_true", help=" ".join(TINY))
    given = parser.parse_args()
    return parser.parse_args([*TINY, *sys.argv[1:]]) if given.tiny else given


def configuration(arguments: argparse.Namespace, task: Task) -> tuple[RunConfig, str]:
    """Return the configuration of a run, and its method."""
    name, hyper = VARIANTS.get(task.entry, (task.entry, {}))
    own = {key: True for key in METHODS[name].needs} | hyper
    keys = {
        "method": name,
        "beside": "",
        "rounds": arguments.rounds,
        "evaluate-every": arguments.rounds,
        "lr": task.lr,
        "seed": arguments.seed,
        # A class of two or three samples, far apart in time, cannot be cut in time once more.
        "split": "stratified" if task.tuning and arguments.train_share < 1 else arguments.split,
        # The part that is validated on is cut from what this share leaves.
        "train-share": 1.0 if task.tuning else arguments.train_share,
        "threads": 1,
        "device": "cpu",
    }
    keys |= {f"{name}.{key.replace('_', '-')}": value for key, value in own.items()}
    return read_config(None, keys), name


def federation_of(arguments: argparse.Namespace, tuning: bool) -> Federation:
    """Return the federation; for tuning what everybody trains on, and nothing else."""
    people = load_federation(arguments.data)
    if arguments.clients:
        names = list(people.clients)[: arguments.clients]
        people = Federation(people.card, {name: people.clients[name] for name in names})
    if not tuning:
        return people
    config, _ = configuration(arguments, Task("local", 0.005, tuning=False))
    settings = config.device_settings("local").split
    kept = {}
    for name, data in people.clients.items():
        numbered = replace(data, x=_numbers(data), since=None)
        own = split_client(numbered, people.card, settings).train_x.ravel().astype(int)
        t = None if data.t is None else data.t[own]
        kept[name] = ClientData(name, data.x[own], data.y[own], t)
    return Federation(people.card, kept)


def _numbers(data: ClientData) -> Any:
    """Return each sample's place instead of its features."""
    return np.arange(len(data.y), dtype=np.float32).reshape(-1, 1)


def run(arguments: argparse.Namespace, task: Task) -> Task:
    """Train and keep a run that is not kept yet."""
    folder = arguments.out / task.folder
    if not (folder / "done").exists():
        torch.set_num_threads(1)
        config, name = configuration(arguments, task)
        people = federation_of(arguments, task.tuning)
        train_method(config, name, people, folder, lambda round: None)
        (folder / "done").touch()
    return task


def summary(arguments: argparse.Namespace, task: Task) -> MethodSummary:
    with RunDatabase(arguments.out / task.folder / DATABASE_FILE) as database:
        return summarise_method(database, None)


def run_all(arguments: argparse.Namespace, tasks: Sequence[Task]) -> None:
    if arguments.jobs < 2:
        for task in tasks:
            run(arguments, task)
        return
    with ProcessPoolExecutor(arguments.jobs, get_context("spawn")) as pool:
        for done in pool.map(run, [arguments] * len(tasks), tasks):
            print(done, file=sys.stderr, flush=True)


def table(arguments: argparse.Namespace) -> str:
    """Return the table of all methods, each at its best rate."""
    wanted = arguments.methods or [*METHODS, *VARIANTS]
    entries = list(dict.fromkeys(["local", "fedavg", *wanted]))
    run_all(arguments, [Task(entry, lr, True) for entry in entries for lr in arguments.lr])
    found = {
        entry: {lr: summary(arguments, Task(entry, lr, True)).macro_f1 or 0 for lr in arguments.lr}
        for entry in entries
    }
    best = {entry: max(rates, key=rates.__getitem__) for entry, rates in found.items()}
    run_all(arguments, [Task(entry, lr, False) for entry, lr in best.items()])
    summaries = method_summaries(arguments.out / "tuned")
    plain = next(s.seconds for s in summaries if s.method == "fedavg")

    def models(count: float | None) -> str:
        return "-" if count is None else f"{count:.2f}"

    columns = [
        *REACHED,
        Column("\nlr", lambda s: f"{best[s.method]:g}"),
        Column("models\nup", lambda s: models(s.full_models_up_sent)),
        Column("\ndown", lambda s: models(s.full_models_down_sent)),
        Column("down to\nevaluate", lambda s: models(s.full_models_evaluation_sent)),
        Column("time /\nfedavg's", lambda s: f"{s.seconds / plain:.1f}"),
    ]
    ranked = sorted(summaries, key=lambda s: -(s.macro_f1 or 0))
    return text_table(ranked, columns)


def own_lines(method: str, spot: str) -> str:
    """Return how many lines a method's ``module:Class`` has, or whose it shares."""
    module, own = spot.partition(":")[0].split("."), method.replace("-", "_")
    if own not in module:
        return f"{module[-1].replace('_', '-')}'s"
    path = ROOT.joinpath(*module[: module.index(own) + 1])
    files = path.glob("**/*.py") if path.is_dir() else [path.with_suffix(".py")]
    return str(sum(len(file.read_text().splitlines()) for file in files))


def main() -> None:
    arguments = read_arguments()
    print(
        f"{arguments.data}: {arguments.rounds} rounds, {arguments.train_share:.0%} of the training "
        f"part, split {arguments.split}, seed {arguments.seed}, rates {arguments.lr}",
        flush=True,
    )
    with tempfile.TemporaryDirectory() as temporary:
        arguments.out = arguments.out or Path(temporary)
        print(table(arguments))
    print("\nlines of")
    for name, card in METHODS.items():
        parts = {"card": f"fedsub_core.methods.{name.replace('-', '_')}", "learner": card.learner}
        counts = (
            f"{part} {own_lines(name, spot)}"
            for part, spot in (parts | {"strategy": card.strategy}).items()
        )
        print(f"{name}: ".ljust(18) + ", ".join(counts))


if __name__ == "__main__":
    main()
