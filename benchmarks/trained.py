"""Whole runs in this process: some people of a federation, what they reach and send."""

from pathlib import Path
from tempfile import TemporaryDirectory

from fedsub.engines.simulation import build_grid, build_strategy, train_method
from fedsub_core.config.run_config import RunConfig
from fedsub_core.data.federation import Federation
from fedsub_core.data.sources import load_federation
from fedsub_core.metrics import MetricRow
from fedsub_server.method_summary import MethodSummary
from fedsub_server.run_folder import DATABASE_FILE
from fedsub_server.rundb import RunDatabase
from fedsub_server.summaries import summarise_method


def first_people(data: str, count: int = 0, skip: int = 0) -> Federation:
    """Return a federation with `count` of its people alone, 0: all, after the first `skip`."""
    people = load_federation(data)
    names = list(people.clients)[skip:][: count or None]
    return Federation(people.card, {name: people.clients[name] for name in names})


def metrics_of(config: RunConfig, people: Federation) -> list[MetricRow]:
    """Train the run's method to its last round, and return the metrics of all rounds."""
    name, rows = config.method, list[MetricRow]()
    grid, strategy = build_grid(config, name, people), build_strategy(config, name)
    strategy.on_round = lambda round, state, new: rows.extend(new)
    try:
        strategy.start(grid)
    finally:
        grid.close()
    return rows


def summary_of(config: RunConfig, people: Federation) -> MethodSummary:
    """Train the run's method in a folder that goes again, and return its summary."""
    with TemporaryDirectory() as folder:
        train_method(config, config.method, people, Path(folder), lambda round: None)
        with RunDatabase(Path(folder, DATABASE_FILE)) as database:
            return summarise_method(database, None)
