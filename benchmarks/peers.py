"""A FedAvg round beside pfl-research's, both without evaluation, one thread each.

The same people, the model 3-128-512-6, batch 32, one epoch, everybody in every round. The peer is
no dependency: `pip install pfl` wants an older dp-accounting than ours, so install it beside, `pip
install --no-deps --target DIR pfl prv-accountant multiprocess dill`, and set PYTHONPATH=DIR.
Without it our part alone is measured.
"""

import statistics
import time
from collections.abc import Callable
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch
from script import put_lines, read_arguments
from simulation import Rounds, federation  # a script beside this one
from torch import Tensor, nn
from torch.nn import functional as F
from turns import medians

from fedsub_core.config.run_config import read_config
from fedsub_core.data.federation import Federation

TINY = ["--clients", "4", "--samples", "60", "--rounds", "1"]
LINES = ("4 clients, ours",)


def our_rounds(people: Federation) -> Callable[[], None]:
    """Return rounds of FedAvg on CohortGrid, one per call."""
    config = read_config(None, {"method": "fedavg", "beside": "", "device": "cpu", "threads": 1})
    run = Rounds(config, "fedavg", people)

    def one() -> None:
        number = run.strategy.finished_rounds + 1
        run.strategy.run_round(run.grid, number, timeout=60, evaluated=False)

    return one


def trained_on(people: Federation) -> dict[str, list[Tensor]]:
    """Return the training parts that our clients have, x and y by client."""
    config = read_config(None, {"method": "fedavg", "beside": "", "device": "cpu", "threads": 1})
    cohorts = Rounds(config, "fedavg", people).grid.cohorts
    clients = [client for cohort in cohorts for client in cohort.clients]
    return {c.client: [torch.from_numpy(c.train_x), torch.from_numpy(c.train_y)] for c in clients}


class Net(nn.Module):
    """The papers' model as pfl-research wants one: with its loss, and metrics."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Linear(3, 128), nn.ReLU(), nn.Linear(128, 512), nn.ReLU(), nn.Linear(512, 6)
        )

    def loss(self, x: Tensor, y: Tensor, eval: bool = False) -> Tensor:
        """Return the batch's mean cross-entropy."""
        return F.cross_entropy(self.layers(x), y)

    def metrics(self, x: Tensor, y: Tensor, eval: bool = False) -> dict[str, Any]:
        """Return none."""
        return {}


def pfl_seconds(data: dict[str, list[Tensor]], rounds: int) -> list[float]:
    """Return the CPU seconds of pfl-research's rounds after the first, which warms up."""
    from pfl.aggregate.simulate import SimulatedBackend
    from pfl.algorithm.base import NNAlgorithmParams
    from pfl.algorithm.federated_averaging import FederatedAveraging
    from pfl.callback.base import TrainingProcessCallback
    from pfl.data.dataset import Dataset
    from pfl.data.federated_dataset import FederatedDataset
    from pfl.data.sampling import get_user_sampler
    from pfl.hyperparam import NNEvalHyperParams, NNTrainHyperParams
    from pfl.metrics import Metrics
    from pfl.model.pytorch import PyTorchModel

    ends: list[float] = []

    class Clock(TrainingProcessCallback):  # type: ignore[misc]
        """Notes when each round ended."""

        def after_central_iteration(
            self, aggregate_metrics: Any, model: Any, *, central_iteration: int
        ) -> tuple[bool, Any]:
            """Note the time."""
            ends.append(time.process_time())
            return False, Metrics()

    def local_optimiser(params: Any, lr: float) -> torch.optim.Optimizer:
        return torch.optim.SGD(params, lr=lr, momentum=0.9)

    net = Net()
    model = PyTorchModel(net, local_optimiser, torch.optim.SGD(net.parameters(), lr=1.0))
    people = FederatedDataset(
        lambda name: Dataset(data[name], user_id=name), get_user_sampler("minimize_reuse", [*data])
    )
    FederatedAveraging().run(
        NNAlgorithmParams(rounds + 1, 10**9, len(data), None),
        SimulatedBackend(training_data=people, val_data=None),
        model,
        NNTrainHyperParams(local_num_epochs=1, local_learning_rate=0.005, local_batch_size=32),
        NNEvalHyperParams(None),
        callbacks=[Clock()],
    )
    return [end - begun for begun, end in pairwise(ends)]


def main() -> None:
    arguments = read_arguments(
        TINY, clients=[36, 100], samples=(1428, "of each client"), rounds=5, csv=Path
    )
    torch.set_num_threads(1)
    for clients in arguments.clients:
        people = federation(clients, arguments.samples)
        ours = medians({"ours": our_rounds(people)}, arguments.rounds)["ours"]
        print(f"{clients} clients, ours {1000 * ours:8.0f} ms of CPU time a round", flush=True)
        if find_spec("pfl") is None:
            print(f"{clients} clients: pfl-research is not installed, see --help")
            continue
        theirs = statistics.median(pfl_seconds(trained_on(people), arguments.rounds))
        print(f"{clients} clients, pfl-research {1000 * theirs:8.0f} ms")
        print(f"{clients} clients, ours / pfl-research {ours / theirs:8.2f}   aim <= 0.20")
        cells = f"{1000 * ours:.0f}", f"{1000 * theirs:.0f}", f"{ours / theirs:.2f}", "<= 0.20"
        head = ("people", "ours, ms", "pfl-research, ms", "ratio", "aim")
        put_lines(arguments.csv, head, [(clients, *cells)], 1)


if __name__ == "__main__":
    main()
