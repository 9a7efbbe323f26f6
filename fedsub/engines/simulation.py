"""Training one method on a federation in this process, resumable after every checkpoint."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path

from safetensors.torch import save_file

from fedsub.engines.cohort_grid import CohortGrid
from fedsub_client.cohort import build_learner
from fedsub_client.parts import split_client
from fedsub_core.config.run_config import RunConfig, to_flat
from fedsub_core.data.federation import Federation
from fedsub_core.methods.table import method
from fedsub_core.metrics import MetricRow
from fedsub_server.rundb import RunDatabase
from strategies.rounds.strategy import PersonalizedStrategy, State

Progress = Callable[[int], None]
SERVER = "server"


class Checkpoints:
    """Writes a run's state and metrics at most every `seconds`, and after the last round.

    A run that is killed in between repeats the rounds since the last checkpoint, to the same
    numbers: every random stream is derived from its round.
    """

    def __init__(
        self, database: RunDatabase, grid: CohortGrid, config: RunConfig, progress: Progress
    ) -> None:
        self.database, self.grid, self.config, self.progress = database, grid, config, progress
        self._rows: list[MetricRow] = []
        self._last = time.monotonic()

    def __call__(self, round: int, state: State, rows: Sequence[MetricRow]) -> None:
        """Take note of a finished round."""
        self._rows += rows
        due = time.monotonic() - self._last >= self.config.checkpoint_seconds
        if due or round == self.config.rounds:
            self.database.commit(round, {SERVER: state, **self.grid.state()}, self._rows)
            self._rows = []
            self._last = time.monotonic()
        self.progress(round)


def build_grid(config: RunConfig, name: str, federation: Federation) -> CohortGrid:
    """Return the in-process federation for method `name`, every client's data split."""
    clients = [split_client(c, federation.card, config) for c in federation.clients.values()]
    learner = build_learner(config, name, federation.card, clients[0].train_x.shape[1:])
    return CohortGrid(
        learner,
        federation.card,
        clients,
        config.standardise,
        config.device,
        config.workers,
        config.wire,
    )


def build_strategy(config: RunConfig, name: str) -> PersonalizedStrategy:
    """Return the server half of method `name`."""
    strategy: PersonalizedStrategy = method(name).load_strategy()(config, config.hyper[name])
    return strategy


def train_method(
    config: RunConfig, name: str, federation: Federation, folder: Path, progress: Progress
) -> None:
    """Train method `name` to its last round, from where `folder` left off.

    Writes ``state.db`` and ``models/<client>.safetensors`` (the personal models) into `folder`.
    """
    folder.mkdir(parents=True, exist_ok=True)
    grid = build_grid(config, name, federation)
    strategy = build_strategy(config, name)
    try:
        with RunDatabase(folder / "state.db", to_flat(config)) as database:
            finished, state = database.load()
            if finished:
                strategy.resume(finished, dict(state.pop(SERVER, {})))
                grid.load_state(state)
            progress(finished)
            strategy.on_round = Checkpoints(database, grid, config, progress)
            strategy.start(grid)
        save_models(grid, strategy, folder / "models")
    finally:
        grid.close()


def save_models(grid: CohortGrid, strategy: PersonalizedStrategy, folder: Path) -> None:
    """Write every client's model, as it is evaluated, to ``<folder>/<client>.safetensors``."""
    folder.mkdir(exist_ok=True)
    for cohort in grid.cohorts:
        clients = [c.client for c in cohort.clients]
        params = cohort.learner.params(cohort.receive(strategy.evaluated_downloads(clients)))
        for i, client in enumerate(clients):
            tensors = {name: tensor[i].cpu().contiguous() for name, tensor in params.items()}
            save_file(tensors, folder / f"{client}.safetensors")
