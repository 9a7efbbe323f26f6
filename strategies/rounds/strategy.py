"""The rounds that all methods share: Flower's verbs, deadlines, refusals and metrics.

What a method itself defines is in :mod:`strategies.rounds.server_half`.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Iterable, Sequence
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

from fedsub_core.config.settings import ServerSettings
from fedsub_core.errors import ConfigError, MessageRefused, RunError
from fedsub_core.metrics import MetricRow
from fedsub_core.models.kinds import build_model
from fedsub_core.turn import Turn
from fedsub_core.wire import exchange
from fedsub_core.wire.bundles import Bundle
from fedsub_core.wire.exchange import Instructions
from strategies.rounds.handshake import agree
from strategies.rounds.link import Link
from strategies.rounds.nodes import NodeRegistry
from strategies.rounds.pace import most_of
from strategies.rounds.population import Population
from strategies.rounds.round_metrics import RoundMetrics
from strategies.rounds.server_half import ServerHalf, State
from strategies.rounds.undoing import Undoing

log = logging.getLogger("fedsub")

RoundCallback = Callable[[int, State, Sequence[MetricRow]], None]
ServerEvaluation = Callable[[int, ArrayRecord], MetricRecord | None]


class PersonalizedStrategy(ServerHalf, Strategy):
    """The server half of a method, as Flower's strategy.

    Parameters
    ----------
    settings : what the configuration says to the server half of this method.
    on_round : called after every round with its number, the state after it and its metrics;
        whatever must survive is written there.
    """

    def __init__(self, settings: ServerSettings, on_round: RoundCallback | None = None) -> None:
        super().__init__(settings)
        self.on_round = on_round
        self._metrics: RoundMetrics | None = None
        #: Who was asked to evaluate its model after training it.
        self._also: frozenset[str] = frozenset()
        self._rows: list[MetricRow] = []
        #: What each of the round's clients was sent.
        self._sent: dict[str, Bundle] = {}
        self._undoing = Undoing(settings.robust)
        #: Whether each client that was asked for something answered, and usably if it was to train.
        self._answered: dict[str, bool] = {}
        #: Who made a round wait, however usable its answer was.
        self._slow: frozenset[str] = frozenset()

    # Flower's verbs.

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
            metrics = self.run_round(grid, round, timeout, asked.evaluated(round))
            if metrics is not None:
                result.evaluate_metrics_clientapp[round] = metrics
            self._evaluate_server(round, evaluate_fn, result)
        return result

    def connect(self, grid: Grid) -> None:
        """Hold the handshake, or recall the agreement that the run began with."""
        self.link = Link(grid)
        memory, rounds = self.memory, self.settings.rounds
        bound = rounds.identity == "keys"
        registry = NodeRegistry(identities=memory.identities, bound=bound)
        begun = memory.agreed is not None
        if memory.agreed is None:
            settings = self.settings
            memory.agreed = agree(self.link, registry, rounds, settings.standardise, settings.card)
        agreed = memory.agreed
        patience, left_out = memory.patience, memory.left_out
        self.population = Population(registry, agreed, rounds, patience, left_out)
        if begun:
            self.population.gather(self.link, all_answers=True)
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
                # Who is silent there makes everybody wait, too, however well it trained.
                self._answered |= dict.fromkeys(self.transport.delivery.silent, False)
                self._slow |= self.transport.delivery.pace.slow
            metrics = self._metrics.mean()
        self.memory.patience.note(round, self._answered, self._slow)
        self.finished_rounds = round
        rows = self.transport.collect(round) + self._rows
        rows += self._metrics.rows() if self._metrics is not None else []
        if self.on_round is not None:
            self.on_round(round, self.lasting_state(), rows)
        return metrics

    def configure_train(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        """Address the round's clients, each with a download of its own."""
        assert self.state is not None
        turn = self.turn(server_round)
        clients = self.participants(turn, self.state)
        downloads = self.downloads(self.state, clients, turn)
        self._sent = dict(zip(clients, downloads, strict=True))
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
        refused: set[str] = set()
        usual = self.population.usual_examples()
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
                refused.add(client)
                continue
            self.transport.accept(client, upload, content, server_round)
            # Beyond what a device said before the first round it may have what most have, no more.
            most = max(self.population.facts(client).examples, usual)
            uploads[client] = replace(upload, examples=min(upload.examples, int(most)))
            report = exchange.read_report(content, self.card.reports)
            report["bytes_full_model"] = self.model.full_bytes
            self._rows += [MetricRow(server_round, client, None, n, v) for n, v in report.items()]
        self.population.registry.bind(uploads)
        if self.settings.rounds.clients_per_round:
            self.memory.trained |= uploads.keys()
        self.transport.forget_silent()
        self._answered = dict.fromkeys(self.transport.asked, False) | dict.fromkeys(uploads, True)
        self._slow = self.transport.delivery.pace.slow
        if self._undoing.broken(refused, self.transport.asked) and self._undo(server_round):
            # That theirs could not be used is not the others' fault: nobody rests for it.
            self._answered = {}
            return None, None
        self._demand_quorum(server_round, len(uploads))
        turn, before = self.turn(server_round), self.state
        uploads = dict(sorted(uploads.items()))
        self.state, rows = self.aggregate(before, uploads, turn)
        self._undoing.note(before, uploads, self._sent, self.transport.sends)
        self._rows += rows
        return None, None

    def _undo(self, round: int) -> bool:
        """Go back to an earlier state, without who led away from it; False: impossible."""
        undone = self._undoing.undo(self.memory.left_out, self.init(self.model))
        if undone is None:
            return False
        state, found = undone
        for client in found:
            state = self.without(state, client)
        self.state = state
        self.memory.left_out |= set(found)
        self.population.left_out = self.memory.left_out
        self._rows += [MetricRow(round, client, None, "left_out", 1) for client in found]
        self._rows.append(MetricRow(round, "", None, "undone", 1))
        log.warning(
            "round %d: most uploads cannot be used; the server goes back to an earlier state. Left "
            "out from now on, as they moved most what came after it: %s",
            round,
            ", ".join(found) or "nobody else; it begins anew",
        )
        return True

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
            if self._take_metrics(client, content, server_round):
                self.transport.delivery.note_usable(client)
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
        # Simulated people take turns on one machine, and their results must follow from the seed
        # alone. (In one process all have answered before anybody is waited for.)
        simulated = self.population.registry.simulated
        most = 0 if simulated else most_of(len(messages), self.settings.rounds.quorum)
        return self.transport.deliver(self.link, messages, self.population.nodes, timeout, most)

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

    def _take_metrics(self, client: str, content: RecordDict, round: int) -> bool:
        """Take what a client says of its model; return whether it could be used."""
        if self._metrics is None:
            self._metrics = RoundMetrics(round, self.model.classes)
        try:
            self._metrics.take(client, content)
        except MessageRefused as error:
            self.transport.refuse(client, round, error)
            return False
        return True

    def _evaluate_server(
        self, round: int, evaluate_fn: ServerEvaluation | None, result: Result
    ) -> None:
        if evaluate_fn is None:
            return
        assert self.state is not None
        arrays = ArrayRecord({name: Array(t.cpu().numpy()) for name, t in self.state.items()})
        if (metrics := evaluate_fn(round, arrays)) is not None:
            result.evaluate_metrics_serverapp[round] = metrics
