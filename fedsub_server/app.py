"""The ServerApp: Flower's simulation and deployment run the same strategy as ``fedsub run``."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

from flwr.app import Context
from flwr.serverapp import Grid, ServerApp

from fedsub_core.config.run_config import RunConfig, dump_toml, from_flat, to_flat
from fedsub_core.methods.table import method
from fedsub_core.metrics import MetricRow
from fedsub_core.options import Value
from fedsub_server.rundb import RunDatabase
from strategies.rounds.strategy import PersonalizedStrategy, State

__all__ = ["app"]

log = logging.getLogger("fedsub")
app = ServerApp()

SERVER = "server"
#: Keys that may be other when a run goes on: they decide how long and how patiently, not what.
MAY_CHANGE = {
    "rounds",
    "round-timeout",
    "quorum",
    "min-clients",
    "join-timeout",
    "evaluate-every",
    "beside",
    "data",
    "device",
    "threads",
    "out",
    "folder",
    "checkpoint-seconds",
}


@app.main()
def main(grid: Grid, context: Context) -> None:
    """Run the configured method's rounds, from where the run's folder left off.

    The folder is ``folder`` of the configuration, or ``<out>/flower-<time>``; it gets ``run.toml``
    and ``<method>/state.db``, which is written in one transaction a round. Methods beside the
    main one are for ``fedsub run``.
    """
    config = from_flat(context.run_config)
    folder = run_folder(config)
    own = folder / config.method
    own.mkdir(parents=True, exist_ok=True)
    strategy: PersonalizedStrategy = method(config.method).load_strategy()(
        config, config.hyper[config.method]
    )
    with RunDatabase(own / "state.db", decisive(config)) as database:
        (folder / "run.toml").write_text(dump_toml(config), encoding="utf-8")
        finished, state = database.load()
        if finished:
            strategy.resume(finished, dict(state[SERVER]))
            log.warning("%s: going on after round %d", folder, finished)
        strategy.mail.run = database.meta().get("run", "")

        def commit(round: int, state: State, rows: Sequence[MetricRow]) -> None:
            database.commit(round, {SERVER: state}, rows)
            log.warning("round %d of %d finished", round, config.rounds)

        strategy.on_round = commit
        strategy.start(grid)
    log.warning("run folder: %s", folder.resolve())


def decisive(config: RunConfig) -> dict[str, Value]:
    """Return the keys and values that must be the same for a run to go on."""
    may_change = set(MAY_CHANGE)
    if config.split == "unseen":
        # The last rounds are those in which held-out people join: more would test them as seen.
        may_change.remove("rounds")
    return {
        key: value
        for key, value in to_flat(config).items()
        if key not in may_change and ("." not in key or key.startswith(f"{config.method}."))
    }


def run_folder(config: RunConfig) -> Path:
    """Return the folder that this run is kept in."""
    if config.folder:
        return Path(config.folder)
    return Path(config.out) / f"flower-{datetime.now():%Y%m%d-%H%M%S}"
