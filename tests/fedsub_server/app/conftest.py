"""Runs of the server app on a small town, and what they leave."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from flwr.app import Context, RecordDict

from fedsub.engines.cohort_grid import CohortGrid
from fedsub.engines.simulation import build_grid
from fedsub_core.config.run_config import RunConfig, read_config, to_flat
from fedsub_core.data.federation import Card, ClientData, Federation
from fedsub_server.app import SERVER, main
from fedsub_server.rundb import RunDatabase


@pytest.fixture
def town() -> Federation:
    stream = np.random.default_rng(5)
    clients = {}
    for i, name in enumerate(("anna", "ben", "cleo")):
        y = np.arange(24 + 6 * i) % 3
        x = (stream.normal(y[:, None] + i, 0.7, (len(y), 2))).astype(np.float32)
        clients[name] = ClientData(name, x, y)
    return Federation(Card("town", "a test", ("a", "b", "c"), ("u", "v")), clients)


@pytest.fixture
def configuration() -> Any:
    """Make the configuration of a run in a folder."""

    def run(data: str, folder: Path, /, **keys: Any) -> RunConfig:
        given = {"data": data, "folder": str(folder), "rounds": 4, "round-timeout": 5.0}
        given |= {"join-timeout": 5.0, "beside": "", "device": "cpu", "threads": 1}
        return read_config(None, given | keys)

    return run


@pytest.fixture
def serve() -> Any:
    """Run the app."""

    def run(grid: Any, config: RunConfig) -> None:
        main(grid, Context(1, 0, {}, RecordDict(), to_flat(config)))  # type: ignore[arg-type]

    return run


@pytest.fixture
def result() -> Any:
    """Read what a run has left."""

    def run(config: RunConfig) -> tuple[int, dict[str, torch.Tensor], list[Any], str]:
        """Return the last round, the server's state, all metrics and the run's name."""
        with RunDatabase(Path(config.folder) / config.method / "state.db") as database:
            round, state = database.load()
            return round, dict(state[SERVER]), list(database.metrics()), database.meta()["run"]

    return run


@pytest.fixture
def assert_same() -> Any:
    """Check that states are equal to the bit."""

    def run(one: Mapping[str, torch.Tensor], other: Mapping[str, torch.Tensor]) -> None:
        assert one.keys() == other.keys()
        for name, tensor in one.items():
            assert torch.equal(tensor, other[name]), name

    return run


@pytest.fixture
def cohort(town: Federation) -> Iterator[Any]:
    """Make the town in one process."""
    made: list[CohortGrid] = []

    def make(config: RunConfig) -> CohortGrid:
        made.append(build_grid(config, config.method, town))
        return made[-1]

    yield make
    for grid in made:
        grid.close()
