"""Seconds a round: CohortGrid, plain PyTorch loops and Flower's Ray engine, side by side.

36 clients with 1000 training and 428 test samples each, the papers' model 3-128-512-6, batch 32,
one epoch a round. Contenders take turns in one process, so that a noisy machine is noisy for all;
ratios of medians are what counts. Ray runs last, in processes of its own. With ``--cpu`` seconds
are those that cores computed, all threads together: where others work on the machine, too, the
clock says nothing.
"""

import os
import sqlite3
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from script import put_lines, read_arguments
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset
from turns import medians

from fedsub.engines.cohort_grid import CohortGrid
from fedsub.engines.flower_simulation import flower_run, simulation_link
from fedsub.engines.simulation import build_grid, build_strategy
from fedsub_client.cohort import Cohort
from fedsub_client.methods.fedsub.learner import FedSubLearner
from fedsub_client.methods.fedsub.relevance import unit_relevance
from fedsub_core.config.run_config import RunConfig, read_config
from fedsub_core.data.card import Card
from fedsub_core.data.client_data import ClientData
from fedsub_core.data.federation import Federation, write_federation
from fedsub_core.data.stacks import Stack
from fedsub_core.kernels.library import VARIABLE
from fedsub_core.training.loop import train
from fedsub_core.turn import Turn
from fedsub_core.wire.bundles import Bundle

ROOT = Path(__file__).resolve().parents[1]
CLIENTS, SAMPLES, CLASSES, FEATURES = 36, 1428, 6, 3
TINY = ["--clients", "4", "--samples", "60", "--rounds", "1", "--no-ray"]
HEAD = ("people", "samples", "seconds", "trained by", "what", "ms", "ratio", "aim")
RULES = ("naive", "lrp-a1b0", "lrp-a2b1")
#: What the ratios are to be.
AIMS = {
    "FedAvg round / DataLoader loop": "<= 0.40",
    "FedSub round / slice loop": "<= 0.60",
    "FedSub round / FedAvg round": "<= 2.0",
    "evaluation / FedAvg round": "<= 0.10",
    **{f"relevance {rule} / epoch": "<= 1.0" for rule in RULES},
    **{f"Ray / CohortGrid, {method}": ">= 3" for method in ("fedavg", "fedsub")},
}
#: What the lines of results begin with; Ray's take minutes of their own.
LINES = tuple(name for name in AIMS if "Ray" not in name)


def federation(clients: int = CLIENTS, samples: int = SAMPLES) -> Federation:
    """Synthetic people: six Gaussian classes whose centres differ a little between people."""
    rng = np.random.default_rng(0)
    card = Card("synthetic", "speed", tuple("abcdef"), ("x", "y", "z"))
    people = {}
    for i in range(clients):
        y = np.sort(np.arange(samples) % CLASSES).astype(np.int64)
        centres = rng.normal(0, 2, (CLASSES, FEATURES))
        x = (centres[y] + rng.normal(0, 1, (samples, FEATURES))).astype(np.float32)
        people[f"{i:04d}"] = ClientData(f"{i:04d}", x, y)
    return Federation(card, people)


class Rounds:
    """Rounds of one method on CohortGrid, one per call."""

    def __init__(self, config: RunConfig, method: str, people: Federation) -> None:
        self.grid = build_grid(config, method, people)
        self.strategy = build_strategy(config, method)
        self.strategy.connect(self.grid)

    def __call__(self) -> None:
        """Run the next round, evaluation included."""
        round = self.strategy.finished_rounds + 1
        self.strategy.run_round(self.grid, round, timeout=60, evaluated=True)


def torch_loops(grid: CohortGrid) -> tuple[Callable[[], None], Callable[[], None]]:
    """Return a DataLoader loop and an index-slice loop, as people write them."""
    data = [(c.train_x, c.train_y) for cohort in grid.cohorts for c in cohort.clients]
    tensors = [(torch.from_numpy(x), torch.from_numpy(y)) for x, y in data]

    def model() -> tuple[nn.Module, torch.optim.Optimizer]:
        net = nn.Sequential(
            nn.Linear(FEATURES, 128), nn.ReLU(), nn.Linear(128, 512), nn.ReLU(), nn.Linear(512, 6)
        )
        return net, torch.optim.SGD(net.parameters(), lr=0.005, momentum=0.9)

    def step(net: nn.Module, sgd: torch.optim.Optimizer, x: torch.Tensor, y: torch.Tensor) -> None:
        sgd.zero_grad()
        F.cross_entropy(net(x), y).backward()  # type: ignore[no-untyped-call]
        sgd.step()

    def loader_loop() -> None:
        for x, y in tensors:
            net, sgd = model()
            for batch in DataLoader(TensorDataset(x, y), batch_size=32, shuffle=True):
                step(net, sgd, *batch)

    def slice_loop() -> None:
        for x, y in tensors:
            net, sgd = model()
            for index in torch.randperm(len(y)).split(32):  # type: ignore[no-untyped-call]
                step(net, sgd, x[index], y[index])

    return loader_loop, slice_loop


def parts(grid: CohortGrid) -> dict[str, Callable[[], None]]:
    """Return a FedSub round's parts on their own, in the grid's threads."""
    learner = grid.cohorts[0].learner
    assert isinstance(learner, FedSubLearner)
    turn, model = Turn(1, 1, 0), learner.model
    stacks = [(cohort, cohort.data.at(turn.round, None)[0]) for cohort in grid.cohorts]

    def everywhere(work: Callable[[Cohort, Stack], object]) -> Callable[[], None]:
        def run() -> None:
            list(grid._pool.map(lambda pair: work(*pair), stacks))

        return run

    def relevance(rule: str) -> Callable[[], None]:
        def work(cohort: Cohort, data: Stack) -> object:
            params = learner.get(cohort.state, "model")
            return unit_relevance(model, params, data, rule, "logits")

        return everywhere(work)

    def epoch(cohort: Cohort, data: Stack) -> object:
        return train(model, learner.get(cohort.state, "model"), data, turn, learner.settings)

    def evaluation(cohort: Cohort, data: Stack) -> object:
        everyone = range(len(cohort.clients))
        state = cohort.personalised(turn, None, everyone, [Bundle()] * len(everyone))
        return cohort.evaluate(turn, None, everyone, state)

    return {
        "epoch of local training": everywhere(epoch),
        **{f"relevance {rule}": relevance(rule) for rule in RULES},
        "evaluation": everywhere(evaluation),
    }


def ray_seconds(people: Federation, method: str, rounds: int) -> float:
    """Median seconds of a round of Flower's Ray engine, the first (start of workers) left out."""
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        write_federation(home / "data", people)
        settings: dict[str, str | int | float | bool] = {
            "data": str(home / "data"),
            "method": method,
            "beside": "",
            "rounds": rounds + 1,
            "out": str(home / "out"),
            "split": "stratified",
            "set": "fedsub.k-selection=dbi-capped",
        }
        with simulation_link(home / "flower") as env:
            flower_run(ROOT, env, len(people.clients), settings, timeout=550)
        database = next((home / "out").glob(f"*/{method}/state.db"))
        with sqlite3.connect(database) as connection:
            rows = connection.execute("SELECT seconds FROM rounds ORDER BY round").fetchall()
    return statistics.median([float(seconds) for (seconds,) in rows[1:]])


def main() -> None:
    arguments = read_arguments(
        TINY,
        rounds=7,
        clients=CLIENTS,
        samples=(SAMPLES, "of each client"),
        no_ray=False,
        cpu=(False, "CPU seconds, of all threads"),
        csv=Path,
    )
    torch.set_num_threads(1)
    people = federation(arguments.clients, arguments.samples)
    config = read_config(
        None,
        {"method": "fedsub", "beside": "local,fedavg", "standardise": "none", "device": "cpu",
         "fedsub.k-selection": "dbi-capped", "fedsub.fusion": "overlapping"},
    )  # fmt: skip
    fedavg, fedsub = Rounds(config, "fedavg", people), Rounds(config, "fedsub", people)
    loader_loop, slice_loop = torch_loops(fedavg.grid)
    contenders: dict[str, Callable[[], None]] = {
        "PyTorch, DataLoader loop (training alone)": loader_loop,
        "PyTorch, index slices (training alone)": slice_loop,
        "CohortGrid, FedAvg round": fedavg,
        "CohortGrid, FedSub round": fedsub,
        **parts(fedsub.grid),
    }
    clock = time.process_time if arguments.cpu else time.perf_counter
    median = medians(contenders, arguments.rounds, clock)
    if not arguments.no_ray:
        for method in ("fedavg", "fedsub"):
            seconds_of_ray = ray_seconds(people, method, min(4, arguments.rounds))
            median[f"Flower's Ray engine, {method} round"] = seconds_of_ray
    size = arguments.clients, arguments.samples
    by = "PyTorch" if os.environ.get(VARIABLE) == "off" else "kernels"
    setting = *size, "CPU" if arguments.cpu else "clock", by
    lines = [(*setting, name, f"{1000 * value:.0f}", "", "") for name, value in median.items()]
    for name, value in median.items():
        print(f"{name:45} {1000 * value:8.0f} ms")
    print()
    for name, ratio in ratios(median).items():
        print(f"{name:45} {ratio:8.2f}   aim {AIMS[name]}")
        lines.append((*setting, name, "", f"{ratio:.2f}", AIMS[name]))
    put_lines(arguments.csv, HEAD, lines, 5)


def ratios(median: dict[str, float]) -> dict[str, float]:
    """Return the ratios that the design aims at."""
    fedavg, fedsub = median["CohortGrid, FedAvg round"], median["CohortGrid, FedSub round"]
    epoch = median["epoch of local training"]
    loader_loop, slice_loop = list(median.values())[:2]
    found = {
        "FedAvg round / DataLoader loop": fedavg / loader_loop,
        "FedSub round / slice loop": fedsub / slice_loop,
        "FedSub round / FedAvg round": fedsub / fedavg,
        "evaluation / FedAvg round": median["evaluation"] / fedavg,
    }
    for rule in RULES:
        found[f"relevance {rule} / epoch"] = median[f"relevance {rule}"] / epoch
    for method, own in (("fedavg", fedavg), ("fedsub", fedsub)):
        ray = median.get(f"Flower's Ray engine, {method} round")
        if ray is not None:
            found[f"Ray / CohortGrid, {method}"] = ray / own
    return found


if __name__ == "__main__":
    main()
