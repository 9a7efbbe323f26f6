"""Training one method on a federation in this process, resumable after every checkpoint."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path

from safetensors.torch import save

from fedsub.engines.cohort_grid import CohortGrid
from fedsub.engines.peak_memory import forget_peak, peak_bytes
from fedsub_client.split_client import split_client
from fedsub_core.config.run_config import RunConfig
from fedsub_core.data.federation import Federation
from fedsub_core.data.fingerprint import fingerprints
from fedsub_core.files import write_whole
from fedsub_core.methods.table import method
from fedsub_core.metrics import MetricRow
from fedsub_server.results import DATABASE_FILE, MODELS
from fedsub_server.resuming import SERVER, decisive
from fedsub_server.rundb import RunDatabase
from strategies.rounds.server_half import State
from strategies.rounds.strategy import PersonalizedStrategy

Progress = Callable[[int], None]


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
    settings, card = config.device_settings(name), federation.card
    clients = [split_client(c, card, settings.split) for c in federation.clients.values()]
    return CohortGrid(settings, card, clients, config.device, config.workers)


def build_strategy(config: RunConfig, name: str) -> PersonalizedStrategy:
    """Return the server half of method `name`."""
    strategy: PersonalizedStrategy = method(name).load_strategy()(config.server_settings(name))
    return strategy


def open_database(
    config: RunConfig, name: str, federation: Federation, folder: Path
) -> RunDatabase:
    """Open or make the database of method `name`; it belongs to this configuration and data."""
    return RunDatabase(
        folder / DATABASE_FILE, {**decisive(config, name), **fingerprints(federation)}
    )


def train_method(
    config: RunConfig, name: str, federation: Federation, folder: Path, progress: Progress
) -> None:
    """Train method `name` to its last round, from where `folder` left off.

    Writes ``state.db`` and ``models/<client>.safetensors`` (the personal models) into `folder`.
    """
    folder.mkdir(parents=True, exist_ok=True)
    forget_peak()
    grid = build_grid(config, name, federation)
    strategy = build_strategy(config, name)
    try:
        with open_database(config, name, federation, folder) as database:
            finished, state = database.load()
            if finished:
                strategy.resume(finished, dict(state.pop(SERVER, {})))
                grid.load_state(state)
            progress(finished)
            strategy.on_round = Checkpoints(database, grid, config, progress)
            strategy.start(grid)
            if finished < config.rounds and (peak := peak_bytes()) is not None:
                database.note_memory(peak)
        save_models(grid, strategy, folder / MODELS)
    finally:
        grid.close()


def save_models(grid: CohortGrid, strategy: PersonalizedStrategy, folder: Path) -> None:
    """Write every client's model, as it is evaluated, to ``<folder>/<client>.safetensors``."""
    folder.mkdir(exist_ok=True)
    turn, scaling = strategy.turn(strategy.finished_rounds), strategy.population.agreed.scaling
    for cohort in grid.cohorts:
        clients = [c.client for c in cohort.clients]
        received = strategy.evaluated_downloads(clients, turn)
        state = cohort.personalised(turn, scaling, range(len(clients)), received)
        params = cohort.learner.personal(state)
        for i, client in enumerate(clients):
            tensors = {name: tensor[i].cpu().contiguous() for name, tensor in params.items()}
            write_whole(folder / f"{client}.safetensors", save(tensors))
