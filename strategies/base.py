"""The server half of a method, and the round loop that all methods share.

A method's own part is pure functions over a state of plain named tensors; this base class alone
knows Flower's verbs, deadlines, refusals, metrics and resuming.
"""

from __future__ import annotations

import logging
from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import torch
from flwr.app import ArrayRecord, ConfigRecord, Message, MessageType, MetricRecord
from flwr.serverapp import Grid
from flwr.serverapp.strategy import Result, Strategy
from torch import Tensor

from fedsub_core import exchange
from fedsub_core.config import RunConfig
from fedsub_core.errors import MessageRefused, RunError
from fedsub_core.messages import Download, Upload, papers_bytes, union_bytes
from fedsub_core.metrics import MetricRow, mean_over_clients
from fedsub_core.models import Model
from fedsub_core.wire.envelope import Envelope
from fedsub_core.wire.memory import memory_tensors, split_memories
from strategies.mail import Mail
from strategies.opening import open_federation

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
        self._rows: list[MetricRow] = []

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
        self.mail.memories, self.state = split_memories(state)

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
        self.open(grid, timeout)
        self.summary()
        result = Result()
        for round in range(self.finished_rounds + 1, rounds + 1):
            evaluated = round % self.config.evaluate_every == 0 or round == rounds
            if (metrics := self.play(grid, round, timeout, evaluated)) is not None:
                result.evaluate_metrics_clientapp[round] = metrics
        return result

    def open(self, grid: Grid, timeout: float) -> None:
        """Hold the opening exchange: afterwards rounds can be played."""
        self.federation = open_federation(grid, self.config, timeout)
        if self.state is None:
            self.state = self.init(self.federation.model)

    def play(self, grid: Grid, round: int, timeout: float, evaluated: bool) -> MetricRecord | None:
        """Play one round; return the mean metrics over clients if it was evaluated."""
        arrays, config, metrics = ArrayRecord(), ConfigRecord(), None
        self._rows = []
        messages = self.configure_train(round, arrays, config, grid)
        self.aggregate_train(round, grid.send_and_receive(messages, timeout=timeout))
        if evaluated:
            messages = self.configure_evaluate(round, arrays, config, grid)
            replies = grid.send_and_receive(messages, timeout=timeout)
            metrics = self.aggregate_evaluate(round, replies)
        self._rows += self.mail.collect_bytes_down(round)
        self.finished_rounds = round
        if self.on_round is not None:
            assert self.state is not None
            self.on_round(round, self.state | memory_tensors(self.mail.memories), self._rows)
        return metrics

    def configure_train(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> list[Message]:
        """Address the round's clients, each with a download of its own."""
        assert self.state is not None
        clients = self.federation.sample(server_round, self.config)
        downloads = self.downloads(self.state, clients, self.federation.model)
        return self.mail.write(MessageType.TRAIN, server_round, self.federation, clients, downloads)

    def aggregate_train(
        self, server_round: int, replies: Iterable[Message]
    ) -> tuple[ArrayRecord | None, MetricRecord | None]:
        """Decode and check the uploads, then let the method aggregate those that passed."""
        model = self.federation.model
        uploads: dict[str, Upload] = {}
        size = self.prototype_size(model)
        for client, content in self.mail.read(server_round, replies):
            try:
                upload, envelope, sent = self.mail.open(client, content, server_round, model, size)
                self.check(upload, envelope)
            except (MessageRefused, ValueError) as error:
                self.mail.refuse(client, server_round, error)
                continue
            self.mail.accept(client, upload, server_round, model)
            uploads[client] = upload
            for metric, value in (
                ("bytes_up_sent", sent),
                ("bytes_up_flower", exchange.message_bytes(content, sent)),
                ("bytes_up_papers", papers_bytes(upload)),
                ("bytes_up_union", union_bytes(upload)),
                ("bytes_full_model", model.full_bytes),
            ):
                self._rows.append(MetricRow(server_round, client, None, metric, value))
        if not uploads:
            raise RunError(
                f"round {server_round}: no client sent a usable upload within the round's deadline "
                f"(refused so far: {dict(self.mail.refusals) or 'none'}); the log says why"
            )
        assert self.state is not None
        self.state = self.aggregate(self.state, dict(sorted(uploads.items())), server_round, model)
        return None, None

    def configure_evaluate(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> list[Message]:
        """Ask every client how its model does on its own test part."""
        clients = self.federation.evaluated(server_round, self.config)
        downloads = self.evaluated_downloads(clients)
        return self.mail.write(
            MessageType.EVALUATE, server_round, self.federation, clients, downloads
        )

    def aggregate_evaluate(
        self, server_round: int, replies: Iterable[Message]
    ) -> MetricRecord | None:
        """Collect every client's metrics; return their unweighted mean over clients."""
        found = []
        for client, content in self.mail.read(server_round, replies):
            try:
                record = content.metric_records[exchange.METRICS]
                classes = self.federation.model.classes
                metrics = exchange.read_metrics(record, client, server_round, classes)
            except (MessageRefused, KeyError) as error:
                self.mail.refuse(client, server_round, error)
                continue
            found.append(metrics)
            self._rows += metrics.rows(server_round, client)
            self._rows += [
                MetricRow(server_round, client, None, name, value)
                for name, value in exchange.read_report(record).items()
            ]
        if not found:
            return None
        examples = torch.tensor([m.examples for m in found])
        means: dict[str, int | float | list[int] | list[float]] = {
            name: mean_over_clients(torch.tensor([getattr(m, name) for m in found]), examples).value
            for name in ("macro_f1", "loss")
        }
        return MetricRecord(means)

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
