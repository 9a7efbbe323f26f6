"""What every method's card says, measured: bytes, time of a round, lines of its files.

    python benchmarks/methods.py [--data ../shared/data/wisdm] [--rounds 20] [--clients 12]
                                 [--times 5]
    python benchmarks/methods.py --methods ditto fedsub-gated

Bytes are full models a client and round over a whole run with the defaults, beside what the card
says (a range where some of it travels only in some rounds). A round's time is the device's half, in
epochs of `local`'s, the median of rounds that were timed in turn. What the methods reach is no
matter of a benchmark: `studies/`.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

import torch

from fedsub.engines.simulation import build_grid, train_method
from fedsub.report.methods import travels
from fedsub_core.config.run_config import RunConfig, read_config
from fedsub_core.data.federation import Federation
from fedsub_core.data.sources import load_federation
from fedsub_core.methods.table import INSTALLED, METHODS
from fedsub_core.turn import Turn
from fedsub_core.wire.bundles import Bundle
from fedsub_server.method_summary import MethodSummary
from fedsub_server.run_folder import DATABASE_FILE
from fedsub_server.rundb import RunDatabase
from fedsub_server.summaries import summarise_method

ROOT = Path(__file__).resolve().parents[1]
REAL = os.environ.get("FEDSUB_DATA", "../shared/data")
TINY = ["--data", f"{REAL}/wisdm", "--clients", "3", "--rounds", "1", "--times", "1"]
#: What the lines of results begin with.
LINES = tuple(f"{name} " for name in METHODS)


def read_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", default=f"{REAL}/wisdm")
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--clients", type=int, default=12)
    parser.add_argument("--times", type=int, default=5, help="a round is timed so often")
    parser.add_argument("--methods", nargs="*", default=sorted(METHODS), choices=sorted(METHODS))
    parser.add_argument("--tiny", action="store_true", help=" ".join(TINY))
    given = parser.parse_args()
    return parser.parse_args([*TINY, *sys.argv[1:]]) if given.tiny else given


def configuration(name: str, rounds: int) -> RunConfig:
    """Return a run with the method's defaults, people having agreed to what it needs."""
    keys: dict[str, str | int | bool] = {
        "method": name,
        "beside": "",
        "rounds": rounds,
        "device": "cpu",
        "threads": 1,
    }
    return read_config(None, keys | {f"{name}.{need}": True for need in METHODS[name].needs})


def bytes_of(name: str, people: Federation, rounds: int) -> MethodSummary:
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary, name)
        train_method(configuration(name, rounds), name, people, folder, lambda round: None)
        with RunDatabase(folder / DATABASE_FILE) as database:
            return summarise_method(database, None)


def seconds_of(names: Iterable[str], people: Federation, times: int) -> dict[str, float]:
    """Return what a round of each method's device half takes, timed in turn."""
    torch.set_num_threads(1)
    grids = {name: build_grid(configuration(name, 9), name, people) for name in names}
    found: dict[str, list[float]] = {name: [] for name in grids}
    try:
        for round in range(1, times + 1):
            for name, grid in grids.items():
                begun = time.perf_counter()
                for cohort in grid.cohorts:
                    index = range(len(cohort.clients))
                    cohort.fit(Turn(round, 99, 0), None, index, [Bundle()] * len(index))
                found[name].append(time.perf_counter() - begun)
    finally:
        for grid in grids.values():
            grid.close()
    return {name: statistics.median(took) for name, took in found.items()}


def own_lines(method: str, spot: str) -> str:
    """Return how many lines a method's ``module:Class`` has, or whose it shares."""
    module, own = spot.partition(":")[0].split("."), method.replace("-", "_")
    if own not in module:
        return f"{module[-1].replace('_', '-')}'s"
    path = ROOT.joinpath(*module[: module.index(own) + 1])
    files = path.glob("**/*.py") if path.is_dir() else [path.with_suffix(".py")]
    return str(sum(len(file.read_text().splitlines()) for file in files))


def cells(name: str, people: Federation, rounds: int, epochs: float) -> Iterator[str]:
    """Yield a method's line of the table."""
    card, hyper = METHODS[name], METHODS[name].agreed()
    run = bytes_of(name, people, rounds)
    config = configuration(name, rounds)
    model = build_grid(config, name, people).cohorts[0].learner.model
    for sent, declared in (
        (run.full_models_up_sent, card.sends(model, hyper)),
        (run.full_models_down_sent, card.receives(model, hyper)),
    ):
        yield f"{sent or 0:.3f}"
        yield f"({travels(declared)})"
    yield f"{epochs:.2f}"
    yield f"({card.cost(hyper, 1).round:.2f})"
    module = f"fedsub_core.methods.{name.replace('-', '_')}"
    module = INSTALLED[name].module if name in INSTALLED else module
    for spot in (module, card.learner, card.strategy):
        yield own_lines(name, spot)


def main() -> None:
    arguments = read_arguments()
    people = load_federation(arguments.data)
    names = list(people.clients)[: arguments.clients]
    people = Federation(people.card, {name: people.clients[name] for name in names})
    print(
        f"{arguments.data}: {len(names)} clients, {arguments.rounds} rounds; (what the card says)"
    )
    titles = ("method", "models up", "", "down", "", "epochs", "", "card", "learner", "strategy")
    widths = (16, 9, 17, 6, 17, 6, 7, 5, 18, 18)
    print("".join(title.ljust(width + 1) for title, width in zip(titles, widths, strict=True)))
    chosen = [name for name in METHODS if name in arguments.methods]
    seconds = seconds_of({"local", *chosen}, people, arguments.times)
    for name in chosen:
        epochs = seconds[name] / seconds["local"]
        row = (name, *cells(name, people, arguments.rounds, epochs))
        print("".join(cell.ljust(width + 1) for cell, width in zip(row, widths, strict=True)))


if __name__ == "__main__":
    main()
