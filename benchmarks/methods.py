"""What every method's card says, measured: bytes, time of a round, lines of its files.

    python benchmarks/methods.py --methods ditto fedsub-gated

Bytes are full models a client and round over a whole run with the defaults, beside what the card
says (a range where some of it travels only in some rounds). A round's time is the device's half, in
epochs of `local`'s, the median of rounds that were timed in turn. What the methods reach is no
matter of a benchmark: `studies/`.
"""

import statistics
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

import torch
from script import REAL, Known, read_arguments
from trained import first_people, summary_of

from fedsub.engines.simulation import build_grid
from fedsub.report.methods import travels
from fedsub_core.config.run_config import RunConfig, read_config
from fedsub_core.data.federation import Federation
from fedsub_core.methods.table import INSTALLED, METHODS
from fedsub_core.turn import Turn
from fedsub_core.wire.bundles import Bundle

ROOT = Path(__file__).resolve().parents[1]
TINY = ["--data", f"{REAL}/wisdm", "--clients", "3", "--rounds", "1", "--times", "1"]
LINES = tuple(f"{name} " for name in METHODS)


def configuration(name: str, rounds: int) -> RunConfig:
    """Return a run with the method's defaults, people having agreed to what it needs."""
    keys: dict[str, str | int | bool] = {
        "method": name, "beside": "", "rounds": rounds, "device": "cpu", "threads": 1,
    }  # fmt: skip
    return read_config(None, keys | {f"{name}.{need}": True for need in METHODS[name].needs})


def seconds_of(names: Iterable[str], people: Federation, times: int) -> dict[str, float]:
    """Return the seconds of a round of each method's device half, timed in turn."""
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
    config = configuration(name, rounds)
    run = summary_of(config, people)
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
    arguments = read_arguments(
        TINY,
        data=f"{REAL}/wisdm",
        rounds=20,
        clients=12,
        times=(5, "a round is timed so often"),
        methods=Known(sorted(METHODS)),
    )
    people = first_people(arguments.data, arguments.clients)
    count = len(people.clients)
    print(f"{arguments.data}: {count} clients, {arguments.rounds} rounds; (what the card says)")
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
