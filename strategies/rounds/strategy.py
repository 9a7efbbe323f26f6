"""The server half of a method, and the round loop that all methods share.

A method's own part is pure functions over a state of plain named tensors; this base class alone
knows Flower's verbs, deadlines, refusals, metrics and resuming.
"""

from __future__ import annotations

import logging
import math
from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from flwr.app import ArrayRecord, ConfigRecord, Message, MessageType, MetricRecord, RecordDict
from flwr.serverapp import Grid
from flwr.serverapp.strategy import Result, Strategy
from torch import Tensor

from fedsub_core.config.run_config import RunConfig
from fedsub_core.errors import MessageRefused, RunError
from fedsub_core.metrics import MetricRow
from fedsub_core.models.chain import Model
from fedsub_core.wire import exchange
from fedsub_core.wire.bundles import Download, Upload
from fedsub_core.wire.envelope import Envelope
from fedsub_core.wire.memory import memory_tensors, split_memories
from strategies.rounds.handshake import FEDERATION, Federation, open_federation
from strategies.rounds.round_metrics import Scorebook
from strategies.rounds.transport import Mail

log = logging.getLogger("fedsub")

State = dict[str, Tensor]
RoundCallback = Callable[[int, State, Sequence[MetricRow]], None]


class PersonalizedStrategy(Strategy):
    """The server half of a method.

    Parameters
    ----------
    config : the run's configuration.
    hyper : the method's hyperparameters.
    on_round : called after every round with its number, the state after it and its metrics;
        whatever must survive is written there.
    """

    #: Whether a client's evaluated model is the one the server sends (FedAvg) or its own.
    evaluates_download = False

    def __init__(
        self, config: RunConfig, hyper: Any, on_round: RoundCallback | None = None
    ) -> None:
        self.config, self.hyper = config, hyper
        self.on_round = on_round
        self.state: State | None = None
        self.finished_rounds = 0
        self.mail = Mail(config.wire)
        self._agreed: State = {}
        self._scores: Scorebook | None = None

    # What a method defines.

    @abstractmethod
    def init(self, model: Model) -> State:
        """Return the server's state before the first round."""

    @abstractmethod
    def downloads(self, state: State, clients: Sequence[str], model: Model) -> list[Download]:
        """Return what each of `clients` gets at the start of its next round."""

    @abstractmethod
    def aggregate(
        self, state: State, uploads: Mapping[str, Upload], round: int, model: Model
    ) -> State:
        """Return the state after a round's uploads, by client in ascending order of ids."""

    def check(self, upload: Upload, envelope: Envelope) -> None:
        """Raise MessageRefused if the method cannot use `upload`, which fits the model."""

    def prototype_size(self, model: Model) -> int:
        """Length of the prototypes that clients send; 0 where they send none."""
        return 0

    def evaluated_downloads(self, clients: Sequence[str]) -> list[Download]:
        """Return what makes each client's state the model it is evaluated with."""
        if not self.evaluates_download:
            return [Download()] * len(clients)
        assert self.state is not None
        return self.downloads(self.state, clients, self.federation.model)

    # Flower's verbs.

    def resume(self, round: int, state: State) -> None:
        """Continue after `round`, whose state is `state`."""
        self.finished_rounds = round
        self.mail.memories, own = split_memories(state)
        self._agreed = {name: t for name, t in own.items() if name.startswith(FEDERATION)}
        self.state = {name: t for name, t in own.items() if name not in self._agreed}

    def start(
        self,
        grid: Grid,
        initial_arrays: ArrayRecord | None = None,
        num_rounds: int = 0,
        timeout: float = 0.0,
        train_config: ConfigRecord | None = None,
        evaluate_config: ConfigRecord | None = None,
        evaluate_fn: Callable[[int, ArrayRecord], MetricRecord | None] | None = None,
    ) -> Result:
        """Run the rounds that are left; arguments left out come from the configuration."""
        rounds = num_rounds or self.config.rounds
        timeout = timeout or self.config.round_timeout
        self.open(grid)
        self.summary()
        result = Result()
        for round in range(self.finished_rounds + 1, rounds + 1):
            evaluated = round % self.config.evaluate_every == 0 or round == rounds
            if (metrics := self.play(grid, round, timeout, evaluated)) is not None:
                result.evaluate_metrics_clientapp[round] = metrics
        return result

    def open(self, grid: Grid) -> None:
        """Hold the opening exchange, or recall the one the run began with."""
        if self._agreed:
            self.federation = Federation.of(self._agreed, self.config)
            self.federation.gather(grid, self.config, all_answers=True)
        else:
            self.federation = open_federation(grid, self.config)
        if self.state is None:
            self.state = self.init(self.federation.model)

    def play(self, grid: Grid, round: int, timeout: float, evaluated: bool) -> MetricRecord | None:
        """Play one round; return the mean metrics over clients if it was evaluated."""
        arrays, config = ArrayRecord(), ConfigRecord()
        self._scores = Scorebook(round, self.federation.model.classes) if evaluated else None
        self.federation.gather(grid, self.config)
        self.configure_train(round, arrays, config, grid)
        self.aggregate_train(round, self.mail.deliver(grid, self.federation, timeout))
        metrics = None
        if self._scores is not None:
            # Whoever left while training would be awaited for a whole deadline.
            self.federation.reception.look(grid)
            if self.configure_evaluate(round, arrays, config, grid):
                replies = self.mail.deliver(grid, self.federation, timeout)
                self.aggregate_evaluate(round, replies)
            metrics = self._scores.mean()
        self.finished_rounds = round
        rows = self.mail.collect(round) + (self._scores.rows if self._scores is not None else [])
        if self.on_round is not None:
            self.on_round(round, self.lasting_state(), rows)
        return metrics

    def lasting_state(self) -> State:
        """Return all that the run needs to go on after the last finished round."""
        assert self.state is not None
        return self.state | self.federation.tensors() | memory_tensors(self.mail.memories)

    def configure_train(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> list[Message]:
        """Address the round's clients, each with a download of its own."""
        assert self.state is not None
        clients = self.federation.sample(server_round, self.config)
        downloads = self.downloads(self.state, clients, self.federation.model)
        also: frozenset[str] = frozenset()
        if self._scores is not None and not self.evaluates_download:
            # A model of one's own is evaluated where it was trained: that saves half the messages.
            also = frozenset(self.federation.evaluated(server_round, self.config))
        return self.mail.write(
            MessageType.TRAIN,
            server_round,
            self.federation,
            clients,
            downloads,
            self.config.round_timeout,
            also,
        )

    def aggregate_train(
        self, server_round: int, replies: Iterable[Message]
    ) -> tuple[ArrayRecord | None, MetricRecord | None]:
        """Decode and check the uploads, then let the method aggregate those that passed."""
        model = self.federation.model
        uploads: dict[str, Upload] = {}
        size = self.prototype_size(model)
        for client, content in self.mail.read(server_round, replies):
            if exchange.METRICS in content:
                self._take_metrics(client, content, server_round)
            try:
                upload, envelope = self.mail.open(client, content, server_round, model, size)
                self.check(upload, envelope)
            except (MessageRefused, ValueError) as error:
                self.mail.refuse(client, server_round, error)
                continue
            self.mail.accept(client, upload, content, server_round, model)
            uploads[client] = upload
        needed = max(1, math.ceil(self.config.quorum * self.mail.asked))
        if len(uploads) < needed:
            raise RunError(
                f"round {server_round}: {len(uploads)} of {self.mail.asked} clients sent a usable "
                f"upload within the round's deadline, expected {needed} at least (refused so far: "
                f"{dict(self.mail.refusals) or 'none'}); the log says why. Finished rounds are "
                "kept: the run can be resumed"
            )
        assert self.state is not None
        self.state = self.aggregate(self.state, dict(sorted(uploads.items())), server_round, model)
        return None, None

    def configure_evaluate(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> list[Message]:
        """Ask every client that has not said it yet how its model does on its own test part."""
        said = self._scores.found if self._scores is not None else {}
        clients = [c for c in self.federation.evaluated(server_round, self.config) if c not in said]
        downloads = self.evaluated_downloads(clients)
        return self.mail.write(
            MessageType.EVALUATE,
            server_round,
            self.federation,
            clients,
            downloads,
            self.config.round_timeout,
        )

    def aggregate_evaluate(
        self, server_round: int, replies: Iterable[Message]
    ) -> MetricRecord | None:
        """Collect every client's metrics; return their unweighted mean over clients."""
        for client, content in self.mail.read(server_round, replies):
            self._take_metrics(client, content, server_round)
        return None if self._scores is None else self._scores.mean()

    def _take_metrics(self, client: str, content: RecordDict, round: int) -> None:
        if self._scores is None:
            self._scores = Scorebook(round, self.federation.model.classes)
        try:
            self._scores.take(client, content)
        except MessageRefused as error:
            self.mail.refuse(client, round, error)

    def summary(self) -> None:
        """Log the run's outline."""
        log.info(
            "%s: %d clients, rounds %d to %d, %s",
            type(self).__name__,
            len(self.federation.clients),
            self.finished_rounds + 1,
            self.config.rounds,
            self.hyper,
        )
