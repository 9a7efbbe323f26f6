"""What a FedSub round takes as the federation grows: seconds, memory, and choosing K.

Each size has a process of its own. "Server half" is aggregating and fusing, CPU seconds of a round
after the first; "K" is clustering every class anew, in epochs of local training of the same
clients, by each rule. An exponent of 1 means: twice the clients, twice the time.
"""

import math
import resource
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from multiprocessing import get_context
from statistics import median

import torch
from script import read_arguments
from simulation import Rounds, federation  # a script beside this one
from turns import seconds_of

from fedsub_core.config.run_config import read_config
from fedsub_core.training.loop import train
from fedsub_core.turn import Turn
from strategies.methods.fedsub.clustering import cluster_classes

TINY = ["--clients", "8", "16", "--samples", "30", "--rounds", "2"]
LINES = ("8 clients:", "16 clients:", "exponent, server half", "exponent, peak")
#: Of more clients, `dbi` is not timed: it tries K up to their number.
MOST_DBI = 1000


@dataclass(frozen=True)
class Size:
    """What one size took: CPU seconds, GiB, and K in epochs by rule."""

    clients: int
    first: float
    later: float
    server: float
    peak: float
    k: dict[str, float]

    def line(self) -> str:
        """Return the numbers in words."""
        rules = ", ".join(f"{rule} {epochs:.2f} epochs" for rule, epochs in self.k.items())
        return (
            f"{self.clients} clients: first round {self.first:.1f} s, later {self.later:.2f} s, "
            f"server half {self.server:.3f} s, peak {self.peak:.2f} GiB; K by {rules}"
        )


def added_up(of: Callable[..., object], into: list[float]) -> Callable[..., object]:
    """Return a function that adds its CPU seconds to the last of a list."""

    def run(*given: object) -> object:
        start = time.process_time()
        result = of(*given)
        into[-1] += time.process_time() - start
        return result

    return run


def measure(clients: int, samples: int, rounds: int, k_selection: str) -> Size:
    """Train some rounds; time them, their server half, and K by each rule."""
    torch.set_num_threads(1)
    config = read_config(
        None,
        {"method": "fedsub", "beside": "", "device": "cpu", "threads": 1,
         "fedsub.k-selection": k_selection, "fedsub.fusion": "overlapping-any"},
    )  # fmt: skip
    run = Rounds(config, "fedsub", federation(clients, samples))
    strategy, half, server = run.strategy, run.strategy.half, [0.0]
    for name in ("aggregate", "downloads"):
        setattr(half, name, added_up(getattr(half, name), server))
    took = []
    for _ in range(rounds):
        server.append(0.0)
        took.append(seconds_of(run))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    assert strategy.state is not None
    points = strategy.state["prototypes"].double()
    classes = {y: points[:, y].numpy() for y in range(points.shape[1])}
    seeds = dict.fromkeys(classes, 0)

    def epoch() -> None:
        for cohort in run.grid.cohorts:
            learner = cohort.learner
            data, params = cohort.data.at(1, None)[0], learner.get(cohort.state, "model")
            train(learner.model, params, data, Turn(1, 1, 0), learner.settings)

    one = seconds_of(epoch)
    k = {}
    for rule in ("dbi", "dbi-capped")[clients > MOST_DBI :]:
        k[rule] = seconds_of(partial(cluster_classes, classes, rule, seeds, 1)) / one
    return Size(clients, took[0], median(took[1:]), median(server[2:]), peak, k)


def main() -> None:
    arguments = read_arguments(
        TINY,
        clients=[100, 300, 1000, 3000],
        samples=(100, "of each client"),
        rounds=3,
        k_selection=("dbi-capped", "of the rounds"),
    )
    sizes = []
    for clients in arguments.clients:
        with ProcessPoolExecutor(1, get_context("spawn")) as process:
            given = arguments.samples, arguments.rounds, arguments.k_selection
            sizes.append(process.submit(measure, clients, *given).result())
        print(sizes[-1].line(), flush=True)
    if len(sizes) == 1:
        return
    first, last = sizes[0], sizes[-1]
    grown = math.log(last.clients / first.clients)
    print(f"exponent, server half {math.log(last.server / first.server) / grown:6.2f}   aim 1.1")
    print(f"exponent, peak        {math.log(last.peak / first.peak) / grown:6.2f}   aim 1.1")


if __name__ == "__main__":
    main()
