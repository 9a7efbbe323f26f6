"""The rounds that all methods share: how a run begins or goes on, and one round after the other.

What a round asks and takes is in :mod:`strategies.rounds.verbs`, what a method itself defines in
:mod:`strategies.rounds.server_half`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import chain

from flwr.app import (
    Array,
    ArrayRecord,
    ConfigRecord,
    Message,
    MetricRecord,
)
from flwr.serverapp import Grid
from flwr.serverapp.strategy import Result

from fedsub_core.capacity import WHOLE, Capacity, held_in
from fedsub_core.config.halves import ServerSettings
from fedsub_core.errors import ConfigError, cut
from fedsub_core.methods.table import method
from fedsub_core.metric_names import CAPACITY
from fedsub_core.metrics import MetricRow
from fedsub_core.models.held import Held, why_unfit
from fedsub_core.models.model import Model
from fedsub_core.models.record import ModelRecord
from strategies.rounds.handshake import agree
from strategies.rounds.link import Link
from strategies.rounds.nodes import NodeRegistry
from strategies.rounds.now import AGGREGATING, EVALUATING, TRAINING, Now
from strategies.rounds.population import Population
from strategies.rounds.round_metrics import RoundMetrics
from strategies.rounds.server_half import State
from strategies.rounds.verbs import Verbs

log = logging.getLogger("fedsub")

RoundCallback = Callable[[int, State, Sequence[MetricRow]], None]
ServerEvaluation = Callable[[int, ArrayRecord], MetricRecord | None]


class PersonalizedStrategy(Verbs):
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
        #: Called before the first round with the state that it begins with, where another process
        #: must not begin with another: after a sum, or the draw of a secret.
        self.on_begun: Callable[[State], None] | None = None
        #: Called once the run's clients, and so its model, are known.
        self.on_connected: Callable[[], None] | None = None
        #: What is done now, and whom it is done with: read by who watches from another thread.
        self.now, self.registry = Now(), NodeRegistry()
        #: Who will not come back, as far as an earlier process knew, and whom the run forgot.
        self.departures = self.registry.departures
        #: Who was named as holding a whole model whatever its capacity.
        self._told_whole: set[str] = set()
        #: What devices of each capacity below 1 hold.
        self._of_weak: dict[float, Model] = {}

    @classmethod
    def of(cls, settings: ServerSettings) -> PersonalizedStrategy:
        """Return the server half that settings are for, by its card."""
        half = method(settings.method).load_strategy(settings.secure.secure_aggregation)
        made: PersonalizedStrategy = half(settings)
        return made

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
        rounds, timeout = num_rounds or configured.rounds, timeout or configured.round_timeout
        # Devices and the method's own turns must know of them, too.
        asked = replace(configured, rounds=rounds, round_timeout=timeout)
        self.settings = replace(self.settings, rounds=asked)
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
        self.link = Link(grid)
        memory, rounds = self.memory, self.settings.rounds
        bound = rounds.identity == "keys"
        self._begin_sums()
        registry = self.registry = NodeRegistry(
            identities=memory.identities,
            bound=bound,
            version=self.settings.version,
            given=self.settings.given,
            departures=self.departures,
            of_sums=self.sums is not None,
        )
        begun = memory.agreed is not None
        if memory.agreed is None:
            agreed = agree(self.link, registry, rounds, self.settings.card, self._shared_features)
            memory.agreed = replace(agreed, scaling=self._standardisation(registry, agreed))
        agreed = memory.agreed
        patience, left_out = memory.patience, memory.left_out
        self.population = Population(registry, agreed, rounds, patience, left_out)
        if begun:
            self.now = Now(self.finished_rounds + 1)
            self.population.gather(self.link, all_answers=True)
        self.model = self._of_capacity(1.0)
        self.transport.sends = self.card.sends(self.model, self.hyper)
        self.transport.receives = self.card.receives(self.model, self.hyper)
        self._note_capacities(self.finished_rounds)
        self._begin_noise()
        if self.state is None:
            self.state = self.begin()
            summed = self.sums is not None and agreed.scaling is not None
            if (summed or self.means is not None) and self.on_begun is not None:
                self.on_begun(self.lasting_state())

    def run_round(
        self, grid: Grid, round: int, timeout: float, evaluated: bool
    ) -> MetricRecord | None:
        """Run one round; return the mean metrics over clients if it was evaluated."""
        arrays, config = ArrayRecord(), ConfigRecord()
        self._metrics = RoundMetrics(round, self.model.classes) if evaluated else None
        self._rows = []
        self.now = Now(round)
        self.population.gather(self.link)
        self._note_capacities(round)
        self._rows += [
            MetricRow(round, client, None, "resting", 1)
            for client in self.population.resting(round)
        ]
        self._rows += self._capacities(round)
        messages = self.configure_train(round, arrays, config, grid)
        self.now = Now(round, TRAINING, limit=timeout)
        self.aggregate_train(round, self._deliver(messages, timeout))
        metrics = None
        if self._metrics is not None:
            # Whoever left while training would be awaited for a whole deadline.
            self.population.registry.refresh(self.link)
            self._note_capacities(round)
            messages = iter(self.configure_evaluate(round, arrays, config, grid))
            if (first := next(messages, None)) is not None:
                left = self.transport.delivery.time_left(timeout)
                self.now = Now(round, EVALUATING, limit=left)
                self.aggregate_evaluate(round, self._deliver(chain([first], messages), left))
                # Who does not answer an evaluation makes everybody wait, too, even if it trained.
                self._answered |= dict.fromkeys(self.transport.delivery.silent, False)
                self._slow |= self.transport.delivery.pace.slow
            metrics = self._metrics.mean()
        self.now = Now(round, AGGREGATING)
        self.memory.patience.note(round, self._answered, self._slow)
        self.finished_rounds = round
        rows = self.transport.collect(round) + self._rows
        rows += self._metrics.rows() if self._metrics is not None else []
        if self.on_round is not None:
            self.on_round(round, self.lasting_state(), rows)
        return metrics

    def model_record(self) -> ModelRecord:
        """Return what a device that holds everything trains, once the run is connected."""
        agreed, seed = self.population.agreed, self.settings.rounds.seed
        return ModelRecord.of(self.settings, seed, agreed.shape, len(agreed.classes))

    def _of_capacity(self, capacity: float) -> Model:
        """Return the model that a device of a capacity holds."""
        agreed, seed = self.population.agreed, self.settings.rounds.seed
        classes = len(agreed.classes)
        return Held.of(self.card, self.settings, seed, agreed.shape, classes, capacity).model

    def _note_capacities(self, round: int) -> None:
        """Note what everybody holds in a round, by what each said; who came may hold less."""
        weak: dict[float, list[str]] = {}
        self.capacities, seed = {}, self.settings.rounds.seed
        for client, said in list(self.population.registry.introductions.items()):
            least = said.facts.capacity.share
            if why := why_unfit(self.card, self.settings.wire, self.model, least):
                self.population.registry.turn_away(client, f"client {client!r}: {why}")
                continue
            share = held_in(self.card, said.facts.capacity, seed, client, round)
            self.capacities[client] = share
            if share < 1:
                weak.setdefault(share, []).append(client)
        self.narrow, self.transport.narrow = {}, {}
        for capacity, clients in weak.items() if self.card.narrow else ():
            if capacity not in self._of_weak:
                self._of_weak[capacity] = self._of_capacity(capacity)
            model = self._of_weak[capacity]
            travels = self.card.sends(model, self.hyper), self.card.receives(model, self.hyper)
            self.narrow |= dict.fromkeys(clients, model)
            self.transport.narrow |= dict.fromkeys(clients, travels)
        self.transport.drop_misfits()
        if not self.card.narrow and (new := set().union(*weak.values()) - self._told_whole):
            self._told_whole |= new
            log.warning(
                "%s: every device holds the whole model, also those that said they hold less: %s",
                self.card.name,
                cut(", ".join(sorted(new))),
            )

    @contextmanager
    def holding(self, capacity: float) -> Iterator[None]:
        """Let everybody hold as much, whatever its device said, and have the model of no person.

        What is sent then tells how a size does that few or none trained.
        """
        registry, references, state = (
            self.population.registry,
            self.transport.references,
            self.state,
        )
        said, kept = registry.introductions, dict(references)
        assert state is not None
        registry.introductions = {
            client: replace(one, facts=replace(one.facts, capacity=Capacity(capacity)))
            for client, one in said.items()
        }
        self.state = self.of_nobody(state)
        self._note_capacities(self.finished_rounds)
        try:
            yield
        finally:
            registry.introductions, self.state = said, state
            self._note_capacities(self.finished_rounds)
            references.update(kept)

    def _capacities(self, round: int) -> list[MetricRow]:
        """Return everybody's capacity, where some cannot always hold the whole model."""
        clients = self.population.clients
        if all(self.population.facts(client).capacity == WHOLE for client in clients):
            return []
        return [MetricRow(round, c, None, CAPACITY, self.capacities[c]) for c in clients]

    def _deliver(self, messages: Iterable[Message], timeout: float) -> Iterable[Message]:
        most = 0
        if not self.population.registry.simulated:
            messages = list(messages)
            most = self._most_of(len(messages))
        return self.transport.deliver(self.link, messages, self.population.nodes, timeout, most)

    def _evaluate_server(
        self, round: int, evaluate_fn: ServerEvaluation | None, result: Result
    ) -> None:
        if evaluate_fn is None:
            return
        assert self.state is not None
        arrays = ArrayRecord({name: Array(t.cpu().numpy()) for name, t in self.state.items()})
        if (metrics := evaluate_fn(round, arrays)) is not None:
            result.evaluate_metrics_serverapp[round] = metrics
