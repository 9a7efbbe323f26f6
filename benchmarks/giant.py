"""A round with one person who has half of all samples, beside one of people who have equally many.

    python benchmarks/giant.py [--clients 36] [--samples 400] [--giant 20000] [--rounds 5]

As many threads as there are cores. A person's steps come one after another, whoever has time; what
else a device computes of its samples goes in parts that idle threads take.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time

import torch
from simulation import Rounds, federation  # a script beside this one

from fedsub_core.config.run_config import read_config
from fedsub_core.data.federation import Federation

TINY = ["--clients", "4", "--samples", "30", "--giant", "300", "--rounds", "1"]
METHODS = ("fedavg", "fedsub")
#: What the lines of results begin with.
LINES = tuple(f"{method}, one giant / all alike" for method in METHODS)


def with_giant(clients: int, samples: int, giant: int) -> Federation:
    """Return people with `samples` each, but for the first."""
    large, many = federation(1, giant), federation(clients, samples)
    return Federation(many.card, many.clients | large.clients)


def read_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--clients", type=int, default=36)
    parser.add_argument("--samples", type=int, default=400, help="of each client, for training")
    parser.add_argument("--giant", type=int, default=20000, help="samples of the first client")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--tiny", action="store_true", help=" ".join(TINY))
    given = parser.parse_args()
    return parser.parse_args([*TINY, *sys.argv[1:]]) if given.tiny else given


def main() -> None:
    arguments = read_arguments()
    torch.set_num_threads(1)
    config = read_config(
        None,
        {"method": "fedsub", "beside": "fedavg", "standardise": "none", "device": "cpu",
         "fedsub.k-selection": "dbi-capped", "fedsub.fusion": "overlapping-any"},
    )  # fmt: skip
    clients, samples, giant = (
        arguments.clients,
        *(round(n / 0.7) for n in (arguments.samples, arguments.giant)),  # 30 % are tested
    )
    alike = (giant + samples * (clients - 1)) // clients
    people = {"giant": with_giant(clients, samples, giant), "alike": federation(clients, alike)}
    runs = {(m, who): Rounds(config, m, of) for m in METHODS for who, of in people.items()}
    took: dict[tuple[str, str], list[float]] = {name: [] for name in runs}
    for _ in range(arguments.rounds + 1):
        for name, run in runs.items():
            start = time.perf_counter()
            run()
            took[name].append(time.perf_counter() - start)
    seconds = {name: statistics.median(times[1:]) for name, times in took.items()}
    for (method, who), one in seconds.items():
        print(f"{method}, {who}: {1000 * one:5.0f} ms")
    for method in METHODS:
        ratio = seconds[method, "giant"] / seconds[method, "alike"]
        print(f"{method}, one giant / all alike  {ratio:.2f}")


if __name__ == "__main__":
    main()
