"""The server half of a method, and the round loop that all methods share.

A method's own part is pure functions over a state of plain named tensors; this base class alone
knows Flower's verbs, deadlines, refusals, metrics and resuming.
"""

from __future__ import annotations

import logging
import math
from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

from flwr.app import (
    Array,
    ArrayRecord,
    ConfigRecord,
    Message,
    MessageType,
    MetricRecord,
    RecordDict,
)
from flwr.serverapp import Grid
from flwr.serverapp.strategy import Result, Strategy
from torch import Tensor

from fedsub_core.config.settings import ServerSettings
from fedsub_core.errors import ConfigError, MessageRefused, RunError
from fedsub_core.methods.table import method
from fedsub_core.metrics import MetricRow
from fedsub_core.models.chain import Model
from fedsub_core.models.kinds import build_model
from fedsub_core.turn import Turn
from fedsub_core.wire import exchange
from fedsub_core.wire.bundles import Bundle
from fedsub_core.wire.envelope import refusal
from fedsub_core.wire.exchange import Instructions
from fedsub_core.wire.references import reference_tensors, split_references
from strategies.rounds.agreement import AGREED, Agreement
from strategies.rounds.handshake import agree
from strategies.rounds.link import Link
from strategies.rounds.nodes import NodeRegistry
from strategies.rounds.patience import PATIENCE, Patience
from strategies.rounds.population import Population
from strategies.rounds.round_metrics import RoundMetrics
from strategies.rounds.transport import Transport

log = logging.getLogger("fedsub")

State = dict[str, Tensor]
RoundCallback = Callable[[int, State, Sequence[MetricRow]], None]
ServerEvaluation = Callable[[int, ArrayRecord], MetricRecord | None]


class PersonalizedStrategy(Strategy):
    """The server half of a method.

    Parameters
    ----------
    settings : what the configuration says to the server half of this method.
    on_round : called after every round with its number, the state after it and its metrics;
        whatever must survive is written there.
    """

    #: The architecture, once devices have said what their samples look like.
    model: Model
    #: The way to its nodes, once it has one; and the run's clients, once they have been asked.
    link: Link
    population: Population

    def __init__(self, settings: ServerSettings, on_round: RoundCallback | None = None) -> None:
        self.settings, self.hyper = settings, settings.hyper
        self.card = method(settings.method)
        self.on_round = on_round
        #: The run's name, by which a device tells this run from another; may be empty.
        self.run_name = ""
        self.state: State | None = None
        self.finished_rounds = 0
        self.transport = Transport(settings.wire)
        self._agreed: State = {}
        self._patience = Patience()
        self._metrics: RoundMetrics | None = None
        #: Who was asked to evaluate its model after training it.
        self._also: frozenset[str] = frozenset()
        self._rows: list[MetricRow] = []
        #: Whether each client that was asked to train gave an upload that could be used.
        self._trained: dict[str, bool] = {}

    # What a method defines.

    @abstractmethod
    def init(self, model: Model) -> State:
        """Return the server's state before the first round."""

    @abstractmethod
    def downloads(self, state: State, clients: Sequence[str], turn: Turn) -> list[Bundle]:
        """Return what each of `clients` gets at the start of its next round."""

    @abstractmethod
    def aggregate(
        self, state: State, uploads: Mapping[str, Bundle], turn: Turn
    ) -> tuple[State, list[MetricRow]]:
        """Return the state after a round's uploads, and what is to be known of it.

        Uploads come by client in ascending order of ids.
        """

    def check(self, state: State, client: str, upload: Bundle) -> None:
        """Raise MessageRefused (:meth:`refuse`) if the method cannot use an upload as declared."""

    def participants(self, turn: Turn, state: State) -> list[str]:
        """Return who trains in a round, ascending."""
        population = self.population
        if self.wants_all(turn):
            return population.taking_part(turn.round)
        return population.sample(turn.round)

    def wants_all(self, turn: Turn) -> bool:
        """Whether everybody is asked in a round, whatever ``clients-per-round`` says."""
        return False

    # What methods are made of.

    @property
    def evaluates_download(self) -> bool:
        """Whether the tested model is the one after the newest download."""
        return bool(self.hyper.tested == "received")

    def refuse(self, client: str, what: str, got: object, expected: object) -> MessageRefused:
        """Return the error for an upload that the method cannot use."""
        return refusal(client, self.finished_rounds + 1, what, got, expected)

    def turn(self, round: int) -> Turn:
        """Return a round's turn."""
        return Turn(round, self.settings.rounds.rounds, self.settings.rounds.seed)

    def evaluated_downloads(self, clients: Sequence[str], turn: Turn) -> list[Bundle]:
        """Return what makes each client's state the one it is tested in."""
        if not self.evaluates_download:
            return [Bundle()] * len(clients)
        assert self.state is not None
        return self.downloads(self.state, clients, turn)

    # Flower's verbs.

    def resume(self, round: int, state: State) -> None:
        """Continue after `round`, whose state is `state`."""
        self.finished_rounds = round
        self.transport.references, own = split_references(state)
        self._agreed = {name: t for name, t in own.items() if name.startswith(AGREED)}
        self._patience = Patience.of(own)
        ours = (AGREED, PATIENCE)
        self.state = {name: t for name, t in own.items() if not name.startswith(ours)}

    def start(
        self,
        grid: Grid,
        initial_arrays: ArrayRecord | None = None,
        num_rounds: int = 0,
        timeout: float = 0.0,
        train_config: ConfigRecord | None = None,
        evaluate_config: ConfigRecord | None = None,
        evaluate_fn: ServerEvaluation | None = None,
    ) -> Result:
        """Run the rounds that are left; arguments left out come from the configuration.

        `evaluate_fn` gets the server's state after every round, and before the first.

        Raises
        ------
        ConfigError
            If `initial_arrays`, `train_config` or `evaluate_config` hold something: devices draw
            the first model from the run's seed, and take their settings from its configuration.
        """
        for name, given in (
            ("initial_arrays", initial_arrays),
            ("train_config", train_config),
            ("evaluate_config", evaluate_config),
        ):
            if given:
                raise ConfigError(
                    f"start: {name}: got {sorted(given)}, expected nothing: the first model "
                    "follows from the run's seed, all else from its configuration. Set it there"
                )
        configured = self.settings.rounds
        rounds, timeout = num_rounds or configured.rounds, timeout or configured.timeout
        # Devices and the method's own turns must know of them, too.
        asked = replace(configured, rounds=rounds, timeout=timeout)
        self.settings = replace(self.settings, rounds=asked)
        self.connect(grid)
        self.summary()
        result = Result()
        if self.finished_rounds == 0:
            self._evaluate_server(0, evaluate_fn, result)
        for round in range(self.finished_rounds + 1, rounds + 1):
            evaluated = round % self.settings.rounds.evaluate_every == 0 or round == rounds
            metrics = self.run_round(grid, round, timeout, evaluated)
            if metrics is not None:
                result.evaluate_metrics_clientapp[round] = metrics
            self._evaluate_server(round, evaluate_fn, result)
        return result

    def connect(self, grid: Grid) -> None:
        """Hold the handshake, or recall the agreement that the run began with."""
        self.link = Link(grid)
        registry, rounds = NodeRegistry(), self.settings.rounds
        if self._agreed:
            agreed = Agreement.of(self._agreed)
            self.population = Population(registry, agreed, rounds, self._patience)
            self.population.gather(self.link, all_answers=True)
        else:
            agreed = agree(self.link, registry, rounds, self.settings.standardise)
            self.population = Population(registry, agreed, rounds, self._patience)
        self.model = build_model(self.settings.model, agreed.shape, len(agreed.classes))
        self.transport.sends = self.card.sends(self.model, self.hyper)
        self.transport.receives = self.card.receives(self.model, self.hyper)
        if self.state is None:
            self.state = self.init(self.model)

    def run_round(
        self, grid: Grid, round: int, timeout: float, evaluated: bool
    ) -> MetricRecord | None:
        """Run one round; return the mean metrics over clients if it was evaluated."""
        arrays, config = ArrayRecord(), ConfigRecord()
        self._metrics = RoundMetrics(round, self.model.classes) if evaluated else None
        self._rows = []
        self.population.gather(self.link)
        self._rows += [
            MetricRow(round, client, None, "resting", 1)
            for client in self.population.resting(round)
        ]
        messages = list(self.configure_train(round, arrays, config, grid))
        self.aggregate_train(round, self._deliver(messages, timeout))
        metrics = None
        if self._metrics is not None:
            # Whoever left while training would be awaited for a whole deadline.
            self.population.registry.refresh(self.link)
            if messages := list(self.configure_evaluate(round, arrays, config, grid)):
                left = self.transport.delivery.time_left(timeout)
                self.aggregate_evaluate(round, self._deliver(messages, left))
            metrics = self._metrics.mean()
        self._patience.note(round, self._trained)
        self.finished_rounds = round
        rows = self.transport.collect(round) + self._rows
        rows += self._metrics.rows() if self._metrics is not None else []
        if self.on_round is not None:
            self.on_round(round, self.lasting_state(), rows)
        return metrics

    def lasting_state(self) -> State:
        """Return all that the run needs to go on after the last finished round."""
        assert self.state is not None
        own = self.state | self.population.agreed.tensors() | self._patience.tensors()
        return own | reference_tensors(self.transport.references)

    def configure_train(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        """Address the round's clients, each with a download of its own."""
        assert self.state is not None
        turn = self.turn(server_round)
        clients = self.participants(turn, self.state)
        downloads = self.downloads(self.state, clients, turn)
        also: frozenset[str] = frozenset()
        if self._metrics is not None and not self.evaluates_download:
            # A model of one's own is evaluated where it was trained: that saves half the messages.
            also = frozenset(self.population.evaluated(server_round))
        self._also = also
        told = {also: self._instructions(turn, also) for also in (False, True)}
        return self.transport.write(
            MessageType.TRAIN,
            {client: told[client in also] for client in clients},
            downloads,
            self.population.nodes,
            self.settings.rounds.timeout,
        )

    def aggregate_train(
        self, server_round: int, replies: Iterable[Message]
    ) -> tuple[ArrayRecord | None, MetricRecord | None]:
        """Decode and check the uploads, then let the method aggregate those that passed."""
        assert self.state is not None
        uploads: dict[str, Bundle] = {}
        for client, content in self.transport.read(server_round, replies):
            if client in self._also and exchange.METRICS in content:
                self._take_metrics(client, content, server_round)
            try:
                upload = self.transport.decode(client, content, server_round)
                if not upload.examples > 0:
                    raise self.refuse(client, "examples", upload.examples, "1 or more")
                self.check(self.state, client, upload)
            except (MessageRefused, ValueError) as error:
                self.transport.refuse(client, server_round, error)
                continue
            self.transport.accept(client, upload, content, server_round)
            uploads[client] = upload
            report = exchange.read_report(content, self.card.reports)
            report["bytes_full_model"] = self.model.full_bytes
            self._rows += [MetricRow(server_round, client, None, n, v) for n, v in report.items()]
        self.transport.forget_silent()
        self._trained = dict.fromkeys(self.transport.asked, False) | dict.fromkeys(uploads, True)
        self._demand_quorum(server_round, len(uploads))
        turn = self.turn(server_round)
        self.state, rows = self.aggregate(self.state, dict(sorted(uploads.items())), turn)
        self._rows += rows
        return None, None

    def configure_evaluate(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        """Ask every client that has not said it yet how its model does on its own test part."""
        turn = self.turn(server_round)
        said = self._metrics.found if self._metrics is not None else {}
        # Who was silent while it should train would make everybody wait a second time.
        silent = self.transport.delivery.silent
        clients = [
            c for c in self.population.evaluated(server_round) if c not in said and c not in silent
        ]
        told = self._instructions(turn, False)
        return self.transport.write(
            MessageType.EVALUATE,
            dict.fromkeys(clients, told),
            self.evaluated_downloads(clients, turn),
            self.population.nodes,
            self.settings.rounds.timeout,
        )

    def aggregate_evaluate(
        self, server_round: int, replies: Iterable[Message]
    ) -> MetricRecord | None:
        """Collect every client's metrics; return their unweighted mean over clients."""
        for client, content in self.transport.read(server_round, replies):
            self._take_metrics(client, content, server_round)
        return None if self._metrics is None else self._metrics.mean()

    def summary(self) -> None:
        """Log the run's outline."""
        log.info(
            "%s: %d clients, rounds %d to %d, %s",
            self.card.name,
            len(self.population.clients),
            self.finished_rounds + 1,
            self.settings.rounds.rounds,
            self.hyper,
        )

    def _instructions(self, turn: Turn, also_evaluate: bool) -> Instructions:
        scaling = self.population.agreed.scaling
        return Instructions(turn, self.card.name, scaling, self.run_name, also_evaluate)

    def _deliver(self, messages: Sequence[Message], timeout: float) -> Iterable[Message]:
        return self.transport.deliver(self.link, messages, self.population.nodes, timeout)

    def _demand_quorum(self, round: int, usable: int) -> None:
        asked = len(self.transport.asked)
        needed = max(1, math.ceil(self.settings.rounds.quorum * asked))
        if usable < needed:
            raise RunError(
                f"round {round}: {usable} of {asked} clients sent a usable upload within the "
                f"round's deadline, expected {needed} at least (refused so far: "
                f"{dict(self.transport.refusals) or 'none'}); the log says why. Finished rounds "
                "are kept: the run can be resumed"
            )

    def _take_metrics(self, client: str, content: RecordDict, round: int) -> None:
        if self._metrics is None:
            self._metrics = RoundMetrics(round, self.model.classes)
        try:
            self._metrics.take(client, content)
        except MessageRefused as error:
            self.transport.refuse(client, round, error)

    def _evaluate_server(
        self, round: int, evaluate_fn: ServerEvaluation | None, result: Result
    ) -> None:
        if evaluate_fn is None:
            return
        assert self.state is not None
        arrays = ArrayRecord({name: Array(t.cpu().numpy()) for name, t in self.state.items()})
        if (metrics := evaluate_fn(round, arrays)) is not None:
            result.evaluate_metrics_serverapp[round] = metrics
