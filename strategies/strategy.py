"""The driver of a run: Flower's strategy, whose rounds all methods share.

It is composed of what a round needs: the method's server half, a protection, and a connection.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain
from pathlib import Path

from flwr.app import Array, ArrayRecord, ConfigRecord, Message, MessageType, MetricRecord
from flwr.serverapp import Grid
from flwr.serverapp.strategy import Result, Strategy

from fedsub_core.config.halves import ServerSettings
from fedsub_core.errors import ConfigError, RunError
from fedsub_core.metric_names import LEFT_OUT
from fedsub_core.metrics import MetricRow
from fedsub_core.models.model import Model
from fedsub_core.models.record import ModelRecord
from fedsub_core.turn import Turn
from fedsub_core.wire.bundles import Bundle
from fedsub_core.wire.exchange import Instructions
from strategies.beginning import Outset, check_renewed, connect
from strategies.protections.chosen import check_noise, protection_of
from strategies.protections.protection import Begun, ProtectedRun, Protection
from strategies.protections.secure_sums import SecureSums
from strategies.protections.standardising import standardised_anew
from strategies.rounds.awaited import ask_again
from strategies.rounds.connection import Connection
from strategies.rounds.late import joined
from strategies.rounds.memory import Memory
from strategies.rounds.on_disk import put_away
from strategies.rounds.other_downloads import nobodys_downloads, tested_downloads
from strategies.rounds.own_time import OwnTime
from strategies.rounds.population import Population, capacity_rows, round_now
from strategies.rounds.recovery import recovered
from strategies.rounds.round import HeldModels, OnceLog, Round
from strategies.rounds.round_log import (
    AGGREGATING,
    EVALUATING,
    TRAINING,
    Now,
    RoundLog,
    RoundMetrics,
)
from strategies.rounds.server_half import ServerHalf, State
from strategies.rounds.transport import Transport
from strategies.rounds.undoing import Undoing
from strategies.rounds.uploads import (
    demand_quorum,
    take_metrics,
    take_uploads,
    warn_of_divergence,
)

log = logging.getLogger("fedsub")

RoundCallback = Callable[[int, State, Sequence[MetricRow]], None]
ServerEvaluation = Callable[[int, ArrayRecord], MetricRecord | None]


class PersonalizedStrategy(Strategy):
    """The driver of a method's rounds.

    Parameters
    ----------
    settings : what the configuration says to the server half of this method.
    half : the method's; by default the one that its card names.

    Raises ConfigError if it wants noise on means, and what counts its epsilon is not installed.
    """

    #: The run's clients, their models, and the way to them, once they have been asked.
    connection: Connection
    models: HeldModels
    protection: Protection

    def __init__(self, settings: ServerSettings, half: ServerHalf | None = None) -> None:
        check_noise(settings)
        self.settings = settings
        self.half = ServerHalf.of(settings) if half is None else half
        self.card, self.hyper = self.half.card, self.half.hyper
        #: The run's name, by which a device tells this run from another; may be empty.
        self.run_name = ""
        #: The file of a transcript of secure sums; None: there is none.
        self.transcript: Path | None = None
        self.state: State | None = None
        self.finished_rounds = 0
        #: How long the method's own part takes.
        self.own_time = OwnTime()
        self.transport = Transport(settings.wire, settings.rounds.quorum)
        self.transport.delivery.overdue.keeps = 3600 * settings.rounds.late_hours
        self.transport.delivery.asynchronous = settings.rounds.asynchronous
        self.memory = Memory(references=self.transport.references)
        self.undoing = Undoing(settings.robust)
        self.outset = Outset(None if settings.card is None else settings.card.classes)
        #: Called after every round with its number, the state after it and its metrics: whatever
        #: must survive is written there.
        self.on_round: RoundCallback | None = None
        #: Called before the first round with the state that it begins with, where another process
        #: must not begin with another: after a sum, or the draw of a secret.
        self.on_begun: Callable[[State], None] | None = None
        #: Called once the run's clients, and so its model, are known.
        self.on_connected: Callable[[], None] | None = None
        #: What is done now, and whom it is done with: read by who watches from another thread.
        self.now, self.registry = Now(), self.outset.registry(self.half, self.memory)
        #: The round that goes on: what is to be known of it, and what people were asked for.
        self.log = RoundLog(RoundMetrics(0, 0))
        self.begun: Begun | None = None
        self.once = OnceLog()
        #: Who is asked again in this round for what an earlier process awaited.
        self.asked_again: frozenset[str] = frozenset()

    @property
    def population(self) -> Population:
        """The run's clients."""
        return self.connection.population

    @property
    def model(self) -> Model:
        """The model of a device that holds everything."""
        return self.models.whole

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

        Raises ConfigError if `initial_arrays`, `train_config` or `evaluate_config` hold something:
        devices draw the first model from the run's seed, and take their settings from its
        configuration.
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
        rounds, timeout = num_rounds or configured.rounds, timeout or configured.round_timeout
        asked = replace(configured, rounds=rounds, round_timeout=timeout)
        if asked != configured:
            # Devices and the method's own turns must know of them, too.
            self.settings = replace(self.settings, rounds=asked)
            self.half = type(self.half)(self.settings)
        self.connect(grid)
        if self.on_connected is not None:
            self.on_connected()
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
        settings, memory, sums = self.settings, self.memory, None
        if (secure := settings.secure).secure_aggregation:
            name = self.card.name
            sums = SecureSums(secure, self.transport, self.run_name, name, self.transcript)
        earlier = self.outset.earlier() if memory.agreed is None else None
        if earlier is not None:
            memory.identities, memory.left_out = earlier.identities, earlier.left_out
        if not settings.rounds.late_hours:
            memory.upload_times.again.clear()  # what an earlier process awaited is of no use
        if self.state is not None:
            self.state = self.outset.gained_classes(self.half, memory, self.state)
        self.registry, known = self.outset.registry(self.half, memory), self.outset.scaling
        begun = connect(
            grid, self.half, memory, self.transport, self.registry, sums, known, earlier
        )
        self.connection, self.models = begun.connection, begun.models
        if not begun.anew:
            renewed, finished = self.population.agreed.renewed, self.finished_rounds
            check_renewed(settings.rounds.standardise_anew, renewed, finished)
            self.now = Now(finished + 1)
            self.population.gather(self.connection.link, all_answers=True)
        sends = self.models.sends(self.model)
        run = ProtectedRun(
            self.half, self.connection, self.own_time, sends, self.undoing, begun.sums
        )
        self.protection = protection_of(run, memory.noise)
        self.round(self.finished_rounds)  # misfits are turned away before the first state
        if self.state is None:
            self.state = self.begin()
            if (begun.summed or settings.noise.dp_noise) and self.on_begun is not None:
                self.on_begun(self.lasting_state())

    def begin(self) -> State:
        """Return the state that a run begins with among the clients that are there."""
        return self.outset.state(self.half, self.memory, self.models, self.connection)

    def turn(self, round: int) -> Turn:
        """Return a round's turn."""
        return Turn(round, self.settings.rounds.rounds, self.settings.rounds.seed)

    def round(self, number: int) -> Round:
        """Return a round, of those who are there now; who does not fit is turned away."""
        self.population.left_out = self.memory.left_out
        self.population.busy, self.population.now = self._busy(), self.connection.link.clock.now
        self.population.wall = self._wall
        wire, turn = self.settings.wire, self.turn(number)
        round = round_now(turn, self.models, self.population, wire, self.once)
        self.transport.drop_misfits(round)
        return round

    @property
    def _wall(self) -> float | None:
        """Seconds since 1970; None in a simulation, whose numbers depend on no clock."""
        link = self.connection.link
        return None if link.closed or link.simulates else link.clock.wall

    def _busy(self) -> frozenset[str]:
        """Return who is not asked now, as it still works, or did so not long ago."""
        rounds, link = self.settings.rounds, self.connection.link
        awaited = self.transport.delivery.overdue.awaited() if rounds.asynchronous else {}
        pause = 0.0 if link.closed else rounds.pause_hours
        paused = self.memory.upload_times.paused(link.clock.wall, pause)
        working = frozenset().union(*awaited.values())
        self.population.working = len(working)
        return working.union(paused, self.asked_again)

    def run_round(
        self, grid: Grid, round: int, timeout: float, evaluated: bool
    ) -> MetricRecord | None:
        """Run one round; return the mean metrics over clients if it was evaluated."""
        arrays, config, delivery = ArrayRecord(), ConfigRecord(), self.transport.delivery
        metrics = RoundMetrics(round, self.model.classes, self.settings.training.regression)
        self.log = RoundLog(metrics, evaluated)
        self.now = Now(round)
        self.population.gather(self.connection.link)
        self.log.metrics.knows = self.population.knows()
        if round == self.settings.rounds.standardise_anew:
            assert self.state is not None
            which = self.models, self.connection, self.memory, self.undoing
            self.state, rows = standardised_anew(round, self.half, self.state, *which)
            self._note(rows)
        self.asked_again = frozenset()
        wants_all = self.half.wants_all(self.turn(round))
        if (times := self.memory.upload_times).again and not wants_all:
            says = partial(self._instructions, also_evaluate=False)
            self.asked_again = ask_again(times, self.connection, self.round, says)
        messages = self.configure_train(round, arrays, config, grid)
        self.now = Now(round, TRAINING, limit=timeout)
        sends = self.models.sends(self.model)
        enough = 0 if wants_all else self.settings.rounds.enough
        self.aggregate_train(round, self.connection.deliver(messages, timeout, sends, enough))
        if evaluated:
            # Whoever left while training would be awaited for a whole deadline.
            self.population.registry.refresh(self.connection.link)
            messages = iter(self.configure_evaluate(round, arrays, config, grid))
            if (first := next(messages, None)) is not None:
                left = delivery.time_left(timeout)
                self.now = Now(round, EVALUATING, limit=left)
                replies = self.connection.deliver(chain([first], messages), left, sends)
                self.aggregate_evaluate(round, replies)
                # Who does not answer an evaluation makes everybody wait, too, even if it trained.
                self.log.answered |= dict.fromkeys(delivery.silent, False)
                self.log.slow |= delivery.pace.slow
        self.now = Now(round, AGGREGATING)
        self.memory.patience.note(round, self.log.answered, self.log.slow, self._wall)
        times.note(self.connection)
        self.finished_rounds = round
        rows = self.transport.collect(round) + self.log.rows
        rows += self.log.metrics.rows() if evaluated else []
        if self.on_round is not None:
            self.on_round(round, self.lasting_state(), rows)
        return self.log.metrics.mean() if evaluated else None

    def configure_train(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        """Address the round's clients, each with a download of its own."""
        assert self.state is not None
        round, population = self.round(server_round), self.population
        resting = population.resting(server_round)
        self.log.rows += [MetricRow(server_round, c, None, "resting", 1) for c in resting]
        self.log.rows += capacity_rows(population, dict(round.capacities), server_round)
        with self.own_time:
            clients = self.half.participants(self.state, round)
        begun = self.protection.begin(self.state, round, clients)
        with self.own_time:
            downloads = self.half.downloads(self.state, begun.round, begun.clients)
        also: frozenset[str] = frozenset()
        if self.log.evaluated and not self.half.evaluates_download:
            # A model of one's own is evaluated where it was trained: that saves half the messages.
            also = frozenset(population.evaluated(server_round))
        sent = begun.round.delivered(begun.clients, downloads)
        self.begun = replace(begun, round=sent, also=also)
        instructions = {also: self._instructions(round.turn, also) for also in (False, True)}
        return self.transport.write(
            MessageType.TRAIN,
            sent,
            {client: instructions[client in also] for client in begun.clients},
            downloads,
            population.nodes,
            self.settings.rounds.round_timeout,
            self.connection.link,
            begun.records,
        )

    def aggregate_train(
        self, server_round: int, replies: Iterable[Message]
    ) -> tuple[ArrayRecord | None, MetricRecord | None]:
        """Decode and check the uploads, then let the method aggregate those that passed."""
        begun, before = self.begun, self.state
        if begun is None or begun.round.number != server_round or before is None:
            last = "none" if begun is None else begun.round.number
            raise RunError(
                f"aggregate_train: got round {server_round}, expected the one that configure_train "
                f"began last: {last}"
            )
        round, note = begun.round, self.log
        answers = take_uploads(
            self.half,
            before,
            round,
            self.connection,
            replies,
            note.metrics,
            begun.also,
            self.own_time,
        )
        uploads, asked = answers.usable, self.transport.asked
        self.connection.past.note(round, self.transport.delivery.overdue.awaited())
        diverged = warn_of_divergence(answers, server_round, len(asked), self.half)
        answers.note(note, self.connection)
        answers.remember(self.memory, round, self.connection)
        refused = answers.refused_for(round, asked, self.settings.wire.largest)
        if self.undoing.broken(refused, asked) and self._recover(server_round, diverged):
            # That theirs could not be used is not the others' fault: nobody rests for it.
            note.answered = {}
            return None, None
        demand_quorum(self.connection, server_round, len(uploads) + len(answers.late), diverged)
        note.answered |= dict.fromkeys(begun.left, False)
        with self.own_time:
            round, uploads = joined(self.half, before, round, uploads, answers.late)
        after, rows = self.protection.take(before, replace(begun, round=round), uploads)
        self.state = put_away(after, self.half.keeps)
        self._note(rows)
        return None, None

    def _note(self, rows: Sequence[MetricRow]) -> None:
        """Note rows of the round, and leave out from now on whom they say so of."""
        self.log.rows += rows
        self.memory.left_out |= {row.client for row in rows if row.metric == LEFT_OUT}

    def _recover(self, round: int, diverged: str) -> bool:
        """Go on from a state that leads nobody astray (:func:`recovered`); False: there is none."""
        assert self.state is not None
        left_out, begin = self.memory.left_out, self.begin
        after = recovered(self.half, self.state, self.undoing, left_out, begin, round, diverged)
        if after is None:
            return False
        self.state, rows = after
        self.connection.past.clear()
        self.memory.upload_times.again.clear()
        self._note(rows)
        return True

    def configure_evaluate(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        """Ask every client for its model's metrics on its test part, unless they came before."""
        round, known = self.round(server_round), self.log.metrics.by_client
        # Who was silent while it should train would make everybody wait a second time.
        delivery, everybody = self.transport.delivery, self.population.evaluated(server_round)
        silent = delivery.silent.union(*delivery.overdue.awaited().values())
        clients = [c for c in everybody if c not in known and c not in silent]
        instructions = self._instructions(round.turn, False)
        with self.own_time:
            downloads = self.tested_downloads(clients, round)
        return self.transport.write(
            MessageType.EVALUATE,
            round,
            dict.fromkeys(clients, instructions),
            downloads,
            self.population.nodes,
            self.settings.rounds.round_timeout,
            self.connection.link,
        )

    def aggregate_evaluate(
        self, server_round: int, replies: Iterable[Message]
    ) -> MetricRecord | None:
        """Collect every client's metrics; return their unweighted mean over clients."""
        metrics = self.log.metrics
        for client, content, _ in self.transport.read(server_round, replies):
            if take_metrics(metrics, self.connection, client, content):
                self.transport.delivery.note_usable(client)
        return metrics.mean()

    def tested_downloads(self, clients: Sequence[str], round: Round | None = None) -> list[Bundle]:
        """Return the downloads by which clients are tested, after a round; by default the last."""
        assert self.state is not None
        round, few = round or self.round(self.finished_rounds), self.settings.rounds
        trained = self.memory.trained if few.clients_per_round else None
        return tested_downloads(self.half, self.state, round, clients, trained)

    def tested_holding(self, clients: Sequence[str], capacity: float) -> list[Bundle]:
        """Return the downloads of clients that hold as much: :func:`nobodys_downloads`."""
        assert self.state is not None
        round = self.round(self.finished_rounds)
        return nobodys_downloads(self.half, self.state, round, clients, capacity)

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

    def model_record(self) -> ModelRecord:
        """Return the record of the model of a device that holds everything, once connected."""
        agreed, seed = self.population.agreed, self.settings.rounds.seed
        return ModelRecord.of(self.settings, seed, agreed.shape, len(agreed.classes))

    # What outlives the process.

    def resume(self, round: int, state: State) -> None:
        """Continue after `round`, whose state is `state`."""
        self.finished_rounds = round
        self.memory, kept = Memory.split(state)
        self.transport.references = self.memory.references
        after, left_out = self.half.resumed(kept, self.turn(round))
        self.state = put_away(after, self.half.keeps)
        self.memory.left_out |= set(left_out)
        self.undoing.made(self.half.heard_of(self.state))

    def lasting_state(self) -> State:
        """Return all that the run needs to go on after the last finished round."""
        assert self.state is not None
        return self.state | self.memory.tensors()

    @property
    def leaving(self) -> set[str]:
        """The clients whose person leaves, and whom the run has not forgotten yet."""
        return self.transport.left | self.outset.departures.leaving

    def forget(self, client: str) -> None:
        """Remove a client from what :meth:`resume` brought back: what others learnt of it stays."""
        assert self.state is not None
        self.memory.forget(client)
        self.state = self.half.without(self.state, client)

    def _instructions(self, turn: Turn, also_evaluate: bool) -> Instructions:
        scaling = self.population.agreed.scaling
        own = self.card.name, scaling, self.run_name, also_evaluate
        return Instructions(turn, *own, self.population.agreed.begun_with)

    def _evaluate_server(
        self, round: int, evaluate_fn: ServerEvaluation | None, result: Result
    ) -> None:
        if evaluate_fn is None:
            return
        assert self.state is not None
        arrays = ArrayRecord({name: Array(t.cpu().numpy()) for name, t in self.state.items()})
        if (metrics := evaluate_fn(round, arrays)) is not None:
            result.evaluate_metrics_serverapp[round] = metrics
