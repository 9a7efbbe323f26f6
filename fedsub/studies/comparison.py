"""A comparison: several methods on the same federation, splits and seeds, in one run folder."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from fedsub.engines.simulation import build_grid, train_method
from fedsub.report.results import export_csv, summarise_run
from fedsub_core.config.run_config import RunConfig, differences, dump_toml, read_config
from fedsub_core.data.federation import Federation
from fedsub_core.data.sources import load_federation
from fedsub_core.data.splits import unseen_clients
from fedsub_core.errors import RunError
from fedsub_core.files import stamped_folder
from fedsub_server.rundb import RunDatabase

RUN_FILE = "run.toml"
MethodProgress = Callable[[str, int], None]


def load_data(config: RunConfig) -> Federation:
    """Return the run's federation, or raise what would stop the run before its first round.

    To be called before the run's folder is made, so that bad data leave none behind.
    """
    federation = load_federation(config.data)
    if config.split == "unseen":
        unseen_clients(federation.clients, config.unseen_share, config.seed)
    build_grid(config, config.method, federation).close()
    return federation


def new_folder(config: RunConfig) -> Path:
    """Make the run's folder, ``<out>/<data>-<method>-<time>``, with its resolved run.toml.

    Raises
    ------
    RunError
        If the folder cannot be made.
    """
    data = Path(config.data).resolve().name if config.data != "watch" else "watch"
    folder = stamped_folder(Path(config.out), f"{data}-{config.method}")
    (folder / RUN_FILE).write_text(dump_toml(config), encoding="utf-8")
    return folder


def open_folder(folder: Path, overrides: dict[str, Any]) -> RunConfig:
    """Return the configuration of a run to be resumed.

    Raises
    ------
    RunError
        If `folder` is no run, or `overrides` ask for another configuration than the run's.
    """
    if not (folder / RUN_FILE).is_file():
        raise RunError(f"{folder}: no {RUN_FILE} there: not a run's folder")
    config = read_config(folder / RUN_FILE)
    wanted = read_config(folder / RUN_FILE, overrides)
    if changed := differences(config, wanted):
        raise RunError(
            f"{folder}: a run resumes with its own configuration, but other values were given "
            f"({'; '.join(changed)}). Leave them out, or start a new run."
        )
    return config


def compare(
    config: RunConfig, federation: Federation, folder: Path, progress: MethodProgress
) -> dict[str, Any]:
    """Train every method of the run, one after another, and return the summary.

    Methods that had finished are left as they are. Writes, for each method, ``<method>/state.db``,
    ``metrics.csv`` and ``models/``, and ``summary.json`` for all.
    """
    for name in config.methods:
        own = folder / name
        train_method(config, name, federation, own, lambda r, name=name: progress(name, r))  # type: ignore[misc]
        with RunDatabase(own / "state.db") as database:
            export_csv(database, own / "metrics.csv")
    return summarise_run(folder)
