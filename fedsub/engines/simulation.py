"""Training one method on a federation, resumable after every checkpoint."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import torch

from fedsub.engines.cohort_grid import CohortGrid, resolve_device
from fedsub.engines.held_uploads import adds_up
from fedsub.engines.in_process_grid import SimulationGrid
from fedsub.engines.other_sizes import tested_with_sizes
from fedsub.engines.peak_memory import forget_peak, peak_bytes
from fedsub.engines.ray_cluster import cluster
from fedsub.engines.ray_grid import RayGrid
from fedsub.engines.saved_models import save_models
from fedsub_client.new_cohort import held_and_learner
from fedsub_client.split_client import SplitClient, split_client
from fedsub_core.backend import Backend
from fedsub_core.capacity import of_people
from fedsub_core.config.capacities import ALL_HOLD_ALL, CapacitySettings
from fedsub_core.config.run_config import RunConfig
from fedsub_core.config.settings import SplitSettings
from fedsub_core.data.federation import Federation
from fedsub_core.data.fingerprint import fingerprints
from fedsub_core.data.held_out import unseen_clients
from fedsub_core.errors import ConfigError, DataError
from fedsub_core.files import make_folder
from fedsub_core.methods.table import method
from fedsub_core.metrics import MetricRow
from fedsub_core.packages import package_build
from fedsub_server.beginning import begin_with_earlier
from fedsub_server.driver import drive
from fedsub_server.resuming import decisive
from fedsub_server.run_folder import DATABASE_FILE, MODELS
from fedsub_server.rundb import RunDatabase
from strategies.strategy import PersonalizedStrategy

#: Of so many clients that cannot be split a message says why; it names all.
_EXPLAINED = 5

Progress = Callable[[int], None]
#: Makes the federation that method `name` trains on.
MakeGrid = Callable[[RunConfig, str, Federation], SimulationGrid]


def build_grid(config: RunConfig, name: str, federation: Federation) -> CohortGrid:
    """Return the in-process federation for method `name`, every client's data split."""
    settings = config.device_settings(name)
    clients = split_clients(settings.split, federation, config.capacity_settings)
    return CohortGrid(settings, federation.card, clients, config.device, config.workers)


@contextmanager
def ray_grids(address: str | None) -> Iterator[MakeGrid]:
    """Yield a maker of federations on the workers of a Ray cluster.

    Raises RunError; as :func:`fedsub.engines.ray_cluster.cluster`.
    """
    with cluster(address) as ray:

        def make(config: RunConfig, name: str, federation: Federation) -> SimulationGrid:
            if config.device not in ("cpu", "auto"):
                raise ConfigError(
                    f"device: got {config.device!r}, expected 'cpu' or 'auto': a cluster's "
                    "workers train on their CPUs"
                )
            settings = config.device_settings(name)
            people = split_clients(settings.split, federation, config.capacity_settings)
            holds = adds_up(settings, config.robust_settings, people)
            return RayGrid(ray, settings, federation.card, people, holds)

        yield make


def split_clients(
    settings: SplitSettings, federation: Federation, capacities: CapacitySettings = ALL_HOLD_ALL
) -> list[SplitClient]:
    """Return every client's data, split, with what each one's device can hold.

    Raises DataError, which names all clients that cannot be split, and says why of the first few.
    Raises ConfigError if `capacities`, or the data card's, name somebody else.
    """
    people, refused = [], dict[str, DataError]()
    card, clients = federation.card, list(federation.clients)
    held = of_people(capacities, settings.seed, card.capacities, clients)
    for name, data in federation.clients.items():
        try:
            one = split_client(data, card, settings, capacity=held[name])
            people.append(one)
        except DataError as error:
            refused[name] = error
    if len(refused) == 1:
        raise next(iter(refused.values()))
    if refused:
        reasons = " ".join(map(str, list(refused.values())[:_EXPLAINED]))
        raise DataError(
            f"{len(refused)} of {len(federation.clients)} clients cannot be split: "
            f"{', '.join(refused)}. {reasons}"
        )
    return people


def unseen_people(config: RunConfig, federation: Federation) -> tuple[str, ...]:
    """Return the people who are held out until the last rounds, ascending; () for none.

    Raises DataError if nobody could be, or nobody would be left. Raises ConfigError if capacities
    name somebody else.
    """
    if config.split != "unseen":
        return ()
    clients, settings = list(federation.clients), config.capacity_settings
    held = of_people(settings, config.seed, federation.card.capacities, clients)
    shares = {client: own.share for client, own in held.items()}
    share, by, named = config.unseen_share, config.unseen_by, config.kept_out
    return unseen_clients(clients, share, config.seed, by, shares, named)


def build_strategy(config: RunConfig, name: str) -> PersonalizedStrategy:
    """Return the server half of method `name`."""
    return PersonalizedStrategy(config.server_settings(name))


def trained_by(config: RunConfig, name: str, federation: Federation) -> Backend | None:
    """Return the backend of method `name` here, kernels or PyTorch; None without training."""
    if not method(name).trains:
        return None
    people, settings = federation.clients.values(), config.device_settings(name)
    card, x = federation.card, next(iter(people)).x
    shape = card.shape_of(x)
    _, learner = held_and_learner(settings, card, shape)
    return learner.trained_by(torch.empty(0, device=resolve_device(config.device)))


def open_database(
    config: RunConfig, name: str, federation: Federation, folder: Path
) -> RunDatabase:
    """Open or make the database of method `name`; it belongs to this configuration and data."""
    decides = {**decisive(config, name), **fingerprints(federation)}
    return RunDatabase(folder / DATABASE_FILE, decides, package_build(name))


def train_method(
    config: RunConfig,
    name: str,
    federation: Federation,
    folder: Path,
    progress: Progress,
    make_grid: MakeGrid = build_grid,
) -> None:
    """Train method `name` to its last round, from where `folder` left off.

    Writes ``state.db`` and the personal models into `folder`: :func:`save_models`.
    """
    make_folder(folder)
    forget_peak()
    grid = make_grid(config, name, federation)
    strategy = build_strategy(config, name)
    strategy.outset.classes = federation.card.classes
    try:
        with open_database(config, name, federation, folder) as database:
            if (backend := trained_by(config, name, federation)) is not None:
                database.note_backend(str(backend))
            seconds = config.checkpoint_seconds
            begin_with_earlier(strategy, database, config, federation.card, grid)
            finished = drive(
                strategy,
                grid,
                database,
                clients=grid,
                seconds=seconds,
                whole=config.whole_rounds,
                progress=progress,
                at_end=lambda: _at_end(config, federation, strategy),
            )
            if finished < config.rounds and (peak := peak_bytes()) is not None:
                database.note_memory(peak)
        save_models(grid, strategy, folder / MODELS)
    finally:
        grid.close()


def _at_end(
    config: RunConfig, federation: Federation, strategy: PersonalizedStrategy
) -> list[MetricRow]:
    """Return the metrics of after the last round: :func:`tested_with_sizes`."""
    if not config.sizes:
        return []
    people = split_clients(config.split_settings, federation, config.capacity_settings)
    by_id = {one.client: one for one in people}
    return tested_with_sizes(config, federation, by_id, strategy)
