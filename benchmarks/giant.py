"""A round with one person who has half of all samples, beside one of people who have equally many.

As many threads as there are cores. A person's steps come one after another, whoever has time; what
else a device computes of its samples goes in parts that idle threads take.
"""

import time

import torch
from script import read_arguments
from simulation import Rounds, federation  # a script beside this one
from turns import medians

from fedsub_core.config.run_config import read_config
from fedsub_core.data.federation import Federation

TINY = ["--clients", "4", "--samples", "30", "--giant", "300", "--rounds", "1"]
METHODS = ("fedavg", "fedsub")
LINES = tuple(f"{method}, one giant / all alike" for method in METHODS)


def with_giant(clients: int, samples: int, giant: int) -> Federation:
    """Return people with `samples` each, but for the first."""
    large, many = federation(1, giant), federation(clients, samples)
    return Federation(many.card, many.clients | large.clients)


def main() -> None:
    arguments = read_arguments(
        TINY,
        clients=36,
        samples=(400, "of each client, for training"),
        giant=(20000, "samples of the first client"),
        rounds=5,
    )
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
    seconds = medians(runs, arguments.rounds, time.perf_counter)
    for (method, who), one in seconds.items():
        print(f"{method}, {who}: {1000 * one:5.0f} ms")
    for method in METHODS:
        ratio = seconds[method, "giant"] / seconds[method, "alike"]
        print(f"{method}, one giant / all alike  {ratio:.2f}")


if __name__ == "__main__":
    main()
