"""Whole runs of any method in one process, and what they leave behind."""

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from fedsub.engines.cohort_grid import CohortGrid
from fedsub.engines.simulation import build_grid, build_strategy
from fedsub_core.config.run_config import RunConfig
from fedsub_core.data.federation import Card, ClientData, Federation
from fedsub_core.methods.card import MethodCard
from fedsub_core.methods.table import METHODS
from fedsub_core.metrics import MetricRow
from fedsub_core.wire.bundles import Bundle
from strategies.rounds.agreement import AGREED
from strategies.rounds.round import Round
from strategies.strategy import PersonalizedStrategy

NAMES = ("sit", "walk", "run")
#: Of the battery's models. By default an MLP has ten times as many numbers, for which some methods
#: take ten times as long as for all else of a run so short.
HIDDEN = "64,96"


def people(
    classes: Sequence[Sequence[int]] = ((0, 1, 2),) * 4, samples: int = 40, seed: int = 3
) -> Federation:
    """Return a federation of distinct people, each with the classes it is given."""
    stream = np.random.default_rng(seed)
    clients = {}
    for i, held in enumerate(classes):
        # Sizes differ, so that stacks are padded and means are weighted.
        y = np.repeat(np.array(held, np.int64), samples + 9 * i)
        x = stream.normal(size=(len(y), 4)) + 2 * np.eye(3, 4)[y] + stream.normal(size=4)
        clients[f"p{i + 1}"] = ClientData(f"p{i + 1}", x.astype(np.float32), y)
    return Federation(Card("people", "a test", NAMES, ("a", "b", "c", "d")), clients)


class Interrupted(Exception):
    """A run that is ended between two rounds."""


@dataclass
class Run:
    """What a run of a few rounds left behind."""

    strategy: PersonalizedStrategy
    grid: CohortGrid
    #: Server's state after each round, without what was agreed on at first.
    states: list[dict[str, Tensor]] = field(default_factory=list)
    rows: list[MetricRow] = field(default_factory=list)
    #: All that the server needs to go on after the last round.
    lasting: dict[str, Tensor] = field(default_factory=dict)
    #: Uploads of each round, by client.
    uploads: list[Mapping[str, Bundle]] = field(default_factory=list)

    def client_state(self, client: str) -> dict[str, Tensor]:
        """Return the state of a client."""
        return self.grid.state()[f"client/{client}"]

    def models(self) -> dict[str, dict[str, Tensor]]:
        """Return everybody's personal model as it is tested, by client."""
        strategy, found = self.strategy, {}
        turn = strategy.turn(strategy.finished_rounds)
        for cohort in self.grid.cohorts:
            clients = [c.client for c in cohort.clients]
            received = strategy.tested_downloads(clients)
            scaling = strategy.population.agreed.scaling
            state = cohort.personalised(turn, scaling, range(len(clients)), received)
            for i, client in enumerate(clients):
                personal = cohort.learner.predicted_by(state)
                found[client] = {name: tensor[i] for name, tensor in personal.items()}
        return found

    def metric(self, name: str) -> dict[tuple[int, str], float]:
        """Return a metric by round and client."""
        return {(row.round, row.client): row.value for row in self.rows if row.metric == name}


def assert_equal(ours: Mapping[str, Tensor], theirs: Mapping[str, Tensor]) -> None:
    """Check that tensors are equal bit for bit."""
    assert ours.keys() == theirs.keys()
    for name, tensor in theirs.items():
        assert torch.equal(ours[name], tensor), name


def assert_equal_models(ours: Run, theirs: Run) -> None:
    """Check that everybody ends with the same personal model in two runs, bit for bit."""
    models = ours.models()
    for client, model in theirs.models().items():
        assert_equal(models[client], model)


def assert_near_states(ours: Run, theirs: Run) -> None:
    """Check that what the second run keeps is the same in the first after each round, to 1e-6."""
    for state, expected in zip(ours.states, theirs.states, strict=True):
        for key, tensor in expected.items():
            torch.testing.assert_close(state[key], tensor, atol=1e-6, rtol=0)


RunMethod = Callable[..., Run]


@contextmanager
def running(**keys: Any) -> Iterator[RunMethod]:
    """Yield :func:`run_method`, for rounds of a method; end all that it ran afterwards.

    Runs are set up by `keys` where they say nothing else.
    """
    grids: list[CohortGrid] = []
    try:
        yield partial(run_method, grids, **keys)
    finally:
        for grid in grids:
            grid.close()


class WholeRuns:
    """Tests that run a method's rounds."""

    @pytest.fixture
    def run_method(self) -> Iterator[RunMethod]:
        """Run a method's rounds on a federation, in one process."""
        with running(hidden=HIDDEN) as run:
            yield run


#: What :func:`plain` ran, and the card by which it did: a test may put another into the table.
_plain: dict[str, tuple[MethodCard, Run]] = {}


def plain(name: str) -> Run:
    """Return a method's run of three rounds as a test of :class:`WholeRuns` runs it by its name.

    Many tests compare another one to it: it runs once in a process, and none may change it.
    """
    card, run = _plain.get(name, (None, None))
    if run is None or card is not METHODS[name]:
        with running(hidden=HIDDEN) as run_one:
            run = run_one(name)
        _plain[name] = METHODS[name], run
    return run


def run_method(
    grids: list[CohortGrid],
    name: str,
    federation: Federation | None = None,
    hyper: Mapping[str, Any] | None = None,
    after: Run | None = None,
    until: int | None = None,
    prepare: Callable[[CohortGrid], None] | None = None,
    **keys: Any,
) -> Run:
    """Run a method's rounds on a federation; the grid that is made is added to `grids`.

    Nothing in it may draw from the streams that the whole process shares.

    Parameters
    ----------
    after : go on where this run left off.
    until : interrupt the run after this round.
    prepare : called with the grid before the run.
    """
    own = replace(METHODS[name].agreed(), **(hyper or {}))
    few: dict[str, Any] = dict(rounds=3, device="cpu", threads=1, lr=0.05, batch_size=16)
    config = RunConfig(method=name, beside="", hyper={name: own}, **few | keys)
    shared_streams = positions()
    grid = build_grid(config, name, federation or people())
    grids.append(grid)
    if prepare is not None:
        prepare(grid)
    finished = Run(build_strategy(config, name), grid)
    strategy, aggregate = finished.strategy, finished.strategy.half.aggregate

    def note_uploads(state: Any, round: Round, uploads: Mapping[str, Bundle]) -> Any:
        finished.uploads.append(uploads)
        return aggregate(state, round, uploads)

    def note_round(round: int, state: dict[str, Tensor], rows: Sequence[MetricRow]) -> None:
        finished.rows.extend(rows)
        finished.lasting = {key: t.clone() for key, t in state.items()}
        own = {key: t for key, t in finished.lasting.items() if not key.startswith(AGREED)}
        finished.states.append(own)
        if round == until:
            raise Interrupted

    strategy.half.aggregate = note_uploads  # type: ignore[method-assign]
    strategy.on_round = note_round
    if after is not None:
        strategy.resume(after.strategy.finished_rounds, dict(after.lasting))
        grid.load_state(after.grid.state())
    with suppress(Interrupted):
        strategy.start(grid)
    # A run is free as soon as a test drops it: nothing that it holds leads back to it.
    del strategy.half.aggregate
    strategy.on_round = None
    assert positions() == shared_streams, f"{name} drew from a stream that the process shares"
    return finished


def positions() -> tuple[object, ...]:
    """Return where the streams are: equal before and after what does not draw from them."""
    numpys = np.random.get_state(legacy=False)
    at = (bytes(numpys["state"]["key"]), numpys["state"]["pos"], numpys["has_gauss"])
    return (random.getstate(), at, bytes(torch.random.get_rng_state().numpy()))
