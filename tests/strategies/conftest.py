"""Small federations that really train, with replies tampered with on their way."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
from flwr.serverapp import Grid
from torch import Tensor

from fedsub.engines.cohort_grid import CohortGrid
from fedsub.engines.simulation import build_grid, build_strategy
from fedsub_core.config.run_config import RunConfig
from fedsub_core.data.federation import Card, ClientData, Federation
from fedsub_core.methods.table import method
from fedsub_core.metrics import MetricRow
from strategies.rounds.agreement import AGREED
from strategies.rounds.server_half import ServerHalf
from strategies.strategy import PersonalizedStrategy

from .finished_run import FinishedRun, MakePeople, RunMethod
from .tampered_grid import Tamper, TamperedGrid


@pytest.fixture(scope="session")
def people() -> MakePeople:
    """Make a federation of distinct people, each with the classes it is given, in memory."""

    def make(
        classes: Sequence[Sequence[int]] = ((0, 1, 2),) * 4, samples: int = 25, seed: int = 3
    ) -> Federation:
        stream = np.random.default_rng(seed)
        names = tuple(f"class {c}" for c in range(3))
        clients = {}
        for i, held in enumerate(classes):
            # Sizes differ, so that stacks are padded and means are weighted.
            y = np.repeat(np.array(held, np.int64), samples + 4 * i)
            x = stream.normal(size=(len(y), 4)) + 2 * np.eye(3, 4)[y] + stream.normal(size=4)
            name = f"p{i + 1}"
            clients[name] = ClientData(name, x.astype(np.float32), y)
        return Federation(Card("people", "a test", names, ("a", "b", "c", "d")), clients)

    return make


@contextmanager
def running() -> Iterator[RunMethod]:
    """Yield what runs a method's rounds on a federation; end all that it ran afterwards."""
    grids: list[CohortGrid] = []

    def run(
        federation: Federation,
        name: str = "fedsub",
        tamper: Tamper | None = None,
        hyper: Mapping[str, Any] | None = None,
        after_round: Callable[[int, FinishedRun], object] | None = None,
        backwards: bool = False,
        strategy: Callable[..., PersonalizedStrategy | ServerHalf] | None = None,
        start: Mapping[str, Any] | None = None,
        link: Callable[[Grid], Grid] | None = None,
        **keys: Any,
    ) -> FinishedRun:
        """Return the finished run.

        Parameters
        ----------
        tamper : what becomes of replies.
        after_round : called with its number and the run so far.
        backwards : clients and replies in the opposite order.
        strategy : a driver, or a server half, in place of the method's own.
        start : arguments of ``start``.
        link : puts a Grid in front of the engine's.
        keys : of the configuration.
        """
        clients = federation.clients
        own = method(name).hyperparameters(**(hyper or {}))
        # The engine answers at once: whoever has not answered after a moment never will.
        waits = dict(round_timeout=0.3, join_timeout=0.3, quorum=0.0)
        keys = dict[str, Any](rounds=2, device="cpu", threads=1, **waits) | keys
        config = RunConfig(method=name, beside="", hyper={name: own}, **keys)
        if backwards:
            federation = Federation(federation.card, {})
            federation.clients.update(reversed(clients.items()))
        grid = build_grid(config, name, federation)
        grids.append(grid)
        if strategy is None:
            server = build_strategy(config, name)
        else:
            made = strategy(config.server_settings(name))
            if isinstance(made, ServerHalf):
                made = PersonalizedStrategy(made.settings, half=made)
            server = made
        finished = FinishedRun(server, TamperedGrid(grid, tamper, backwards))

        def note(round: int, state: dict[str, Tensor], rows: Sequence[MetricRow]) -> None:
            finished.rows.extend(rows)
            # What was agreed on before the first round is not the method's.
            own = {key: t.clone() for key, t in state.items() if not key.startswith(AGREED)}
            finished.states.append(own)
            if after_round is not None:
                after_round(round, finished)

        server.on_round = note
        front = finished.grid if link is None else link(finished.grid)
        finished.result = server.start(front, **(start or {}))
        return finished

    try:
        yield run
    finally:
        for grid in grids:
            grid.close()


@pytest.fixture
def run_method() -> Iterator[RunMethod]:
    """Run a method's rounds on a federation."""
    with running() as run:
        yield run


@pytest.fixture(scope="module")
def run_once() -> Iterator[RunMethod]:
    """Run what the tests of a file compare theirs to."""
    with running() as run:
        yield run
