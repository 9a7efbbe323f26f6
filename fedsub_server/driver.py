"""Driving a method's rounds, from where its database left off, in a simulation and in an app."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from itertools import chain
from typing import Protocol

from flwr.serverapp import Grid

from fedsub_core.metric_names import CAPACITY, VALIDATION, VALIDATION_ERROR
from fedsub_core.metrics import MetricRow
from fedsub_core.widening import widened_clients
from fedsub_core.wire.references import PREFIX
from fedsub_server.ending import EndedEarly, Ending
from fedsub_server.leaving import PeopleLeft
from fedsub_server.resuming import SERVER
from fedsub_server.run_folder import TRANSCRIPT_FILE
from fedsub_server.rundb import RunDatabase
from strategies.rounds.server_half import State
from strategies.strategy import PersonalizedStrategy

#: What clients make anew where a state has other shapes: what differences are of, what they hold.
MADE_ANEW = (PREFIX, CAPACITY)


class ClientStates(Protocol):
    """Clients whose states are kept with the run's: those of a simulation in one process."""

    def state(self) -> dict[str, State]:
        """Return every client's state, ``client/<id>`` to named tensors."""

    def load_state(self, state: Mapping[str, State]) -> None:
        """Take over a state: the inverse of :meth:`state`."""


class Checkpoints:
    """Writes a run's state and metrics at most every `seconds`, and after the last round.

    A run that is killed in between repeats the rounds since the last checkpoint, to the same
    numbers: every random stream is derived from its round.
    """

    def __init__(
        self,
        database: RunDatabase,
        rounds: int,
        clients: ClientStates | None,
        seconds: float,
        progress: Callable[[int], None],
        at_end: Callable[[], list[MetricRow]] = list,
        server_seconds: Callable[[], float] = float,
        ending: Ending | None = None,
    ) -> None:
        self.ending = ending
        self.at_end, self.server_seconds = at_end, server_seconds
        self.database, self.rounds, self.clients = database, rounds, clients
        self.seconds, self.progress, self.whole = seconds, progress, 0
        self._rows: list[MetricRow] = []
        self._rounds = 0
        self._last = time.monotonic()

    def begun(self, state: State) -> None:
        """Write the state before the first round, for a process that begins it anew."""
        clients = {} if self.clients is None else self.clients.state()
        self.database.commit(0, {SERVER: state, **clients}, [])

    def __call__(self, round: int, state: State, rows: Sequence[MetricRow]) -> None:
        """Take note of a finished round."""
        self._rows += rows
        self._rounds += 1
        early = self.ending is not None and self.ending.after(round, rows)
        last = early or round == self.rounds
        if last:
            self._rows += self.at_end()
        if time.monotonic() - self._last >= self.seconds or last:
            self.write(round, state)
        self.progress(round)
        if early:
            raise EndedEarly

    def write(self, round: int, state: State) -> None:
        """Write the state after a round, and the metrics of all rounds since the last time."""
        if not self._rounds:
            return
        clients = {} if self.clients is None else self.clients.state()
        took = self.server_seconds(), self._rounds
        self.database.commit(round, {SERVER: state, **clients}, self._rows, took)
        self.database.thin(self.whole, self.rounds)
        self._rows, self._rounds = [], 0
        self._last = time.monotonic()


def drive(
    strategy: PersonalizedStrategy,
    grid: Grid,
    database: RunDatabase,
    *,
    clients: ClientStates | None = None,
    seconds: float = 0.0,
    whole: int = 0,
    progress: Callable[[int], None],
    at_end: Callable[[], list[MetricRow]] = list,
) -> int:
    """Run the rounds that are left; return how many had been finished before.

    Parameters
    ----------
    clients : whose states are kept in the database, too; None: real devices keep their own.
    seconds : between two commits; 0: each round is committed before the next one begins.
    whole : newest rounds whose metrics stay whole in a long run; 0: all.
    progress : told the round that the run goes on from, and every one that is finished.
    at_end : what is measured once, after the last round.

    Raises PeopleLeft after a round in which somebody left, unless it was the last.
    """
    finished, state = database.load()
    if state:
        strategy.resume(finished, dict(state.pop(SERVER, {})))
        strategy.transport.usable |= database.last_rounds("bytes_up_sent")
        if clients is not None:
            if strategy.outset.gains_classes(strategy.memory):
                solves = strategy.card.training.solves
                state = widened_clients(state, clients.state(), bool(solves), MADE_ANEW)
            clients.load_state(state)
    progress(finished)
    rounds = strategy.settings.rounds.rounds
    took, strategy.transcript = strategy.own_time.take, database.path.with_name(TRANSCRIPT_FILE)
    folder, asked = database.path.parent, strategy.settings.rounds
    judged = chain.from_iterable(map(database.metrics, (VALIDATION, VALIDATION_ERROR)))
    ending = Ending(asked, strategy.card.name, folder, judged)
    checkpoints = Checkpoints(database, rounds, clients, seconds, progress, at_end, took, ending)
    checkpoints.whole = whole
    strategy.on_connected = lambda: database.note_model(strategy.model_record())

    def finished_round(round: int, state: State, rows: Sequence[MetricRow]) -> None:
        checkpoints(round, state, rows)
        if strategy.leaving and round < rounds:
            raise PeopleLeft

    strategy.on_round, strategy.on_begun = finished_round, checkpoints.begun
    with suppress(EndedEarly):
        strategy.start(grid, num_rounds=ending.rounds)
    return finished
