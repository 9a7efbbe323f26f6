"""The ServerApp: Flower's simulation and deployment run the same strategy as ``fedsub run``."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

from flwr.app import Context
from flwr.serverapp import Grid, ServerApp

from fedsub_core.config import dump_toml, from_flat, to_flat
from fedsub_core.methods import method
from fedsub_core.metrics import MetricRow
from fedsub_server.rundb import RunDatabase
from strategies.base import PersonalizedStrategy, State

__all__ = ["app"]

log = logging.getLogger("fedsub")
app = ServerApp()


@app.main()
def main(grid: Grid, context: Context) -> None:
    """Run the configured method's rounds; write ``run.toml`` and ``<method>/state.db``.

    The run's folder is ``<out>/flower-<time>``; methods beside the main one are for
    ``fedsub run``.
    """
    config = from_flat(context.run_config)
    folder = Path(config.out) / f"flower-{datetime.now():%Y%m%d-%H%M%S}"
    own = folder / config.method
    own.mkdir(parents=True)
    (folder / "run.toml").write_text(dump_toml(config), encoding="utf-8")
    strategy: PersonalizedStrategy = method(config.method).load_strategy()(
        config, config.hyper[config.method]
    )
    with RunDatabase(own / "state.db", to_flat(config)) as database:

        def commit(round: int, state: State, rows: Sequence[MetricRow]) -> None:
            database.commit(round, {"server": state}, rows)
            log.warning("round %d of %d finished", round, config.rounds)

        strategy.on_round = commit
        strategy.start(grid)
    log.warning("run folder: %s", folder.resolve())
