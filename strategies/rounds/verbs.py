"""Flower's four verbs: the messages of a round, and the use of their answers."""

from __future__ import annotations

import logging
import math
from collections.abc import Iterable, Sequence
from dataclasses import replace

from flwr.app import ArrayRecord, ConfigRecord, Message, MessageType, MetricRecord
from flwr.serverapp import Grid
from flwr.serverapp.strategy import Strategy

from fedsub_core.config.halves import ServerSettings
from fedsub_core.errors import MessageRefused, NumbersRefused, RunError
from fedsub_core.metric_names import ANEW, DIVERGED
from fedsub_core.metrics import MetricRow
from fedsub_core.turn import Turn
from fedsub_core.wire import exchange
from fedsub_core.wire.bundles import Bundle
from fedsub_core.wire.exchange import Content, Instructions
from strategies.rounds.context import Sender
from strategies.rounds.diverging import training_diverged
from strategies.rounds.protections import Protections
from strategies.rounds.round_metrics import RoundMetrics
from strategies.rounds.transport import NOTHING_BESIDE
from strategies.rounds.undoing import Undoing

log = logging.getLogger("fedsub")


class Verbs(Protections, Strategy):
    """The messages to a round's clients, and the use of their answers.

    Parameters
    ----------
    settings : what the configuration says to the server half of this method.
    """

    def __init__(self, settings: ServerSettings) -> None:
        super().__init__(settings)
        self._metrics: RoundMetrics | None = None
        #: Who was asked to evaluate its model after training it.
        self._also: frozenset[str] = frozenset()
        self._undoing = Undoing(settings.robust)
        #: Who made a round wait, however usable its answer was.
        self._slow: frozenset[str] = frozenset()

    def configure_train(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        """Address the round's clients, each with a download of its own."""
        assert self.state is not None
        turn = self.turn(server_round)
        self.population.left_out = self.memory.left_out
        with self.own_time:
            clients = self.participants(turn, self.state)
        beside = NOTHING_BESIDE
        if self.sums is not None and self.transport.sends:
            clients, beside = self._begin_sum(self.sums, turn, clients), self.sums.beside
        with self.own_time:
            downloads = self.downloads(self.state, clients, turn)
        self.delivered = dict(zip(clients, downloads, strict=True))
        also: frozenset[str] = frozenset()
        if self._metrics is not None and not self.evaluates_download:
            # A model of one's own is evaluated where it was trained: that saves half the messages.
            also = frozenset(self.population.evaluated(server_round))
        self._also = also
        instructions = {also: self._instructions(turn, also) for also in (False, True)}
        return self.transport.write(
            MessageType.TRAIN,
            {client: instructions[client in also] for client in clients},
            downloads,
            self.population.nodes,
            self.settings.rounds.round_timeout,
            self.link,
            beside,
        )

    def aggregate_train(
        self, server_round: int, replies: Iterable[Message]
    ) -> tuple[ArrayRecord | None, MetricRecord | None]:
        """Decode and check the uploads, then let the method aggregate those that passed."""
        assert self.state is not None
        uploads: dict[str, Bundle] = {}
        refused: set[str] = set()
        wild: dict[str, NumbersRefused] = {}
        usual = self.population.usual_examples()
        for client, content in self.transport.read(server_round, replies):
            sender = Sender(client, self.turn(server_round))
            if client in self._also and exchange.METRICS in content:
                self._take_metrics(client, content, server_round)
            try:
                upload = self.transport.decode(client, content, server_round)
                if not upload.examples > 0:
                    raise sender.refuse("examples", upload.examples, "1 or more")
                with self.own_time:
                    self.check(self.state, sender, upload)
            except (MessageRefused, ValueError) as error:
                self.transport.refuse(client, server_round, error)
                refused.add(client)
                if isinstance(error, NumbersRefused):
                    wild[client] = error
                continue
            report = exchange.read_report(content, {*self.card.reports, ANEW})
            if report.pop(ANEW, 0):
                self._note_anew(client, server_round)
            self.transport.accept(client, upload, content, server_round)
            # Beyond what a device said before the first round it may have what most have, no more.
            most = max(self.population.facts(client).examples, usual)
            uploads[client] = replace(upload, examples=min(upload.examples, int(most)))
            report["bytes_full_model"] = self.model.full_bytes
            self._rows += [MetricRow(server_round, client, None, n, v) for n, v in report.items()]
        diverged = ""
        if wild:
            asked = len(self.transport.asked)
            diverged = training_diverged(wild, asked, self.card, self.hyper, self.settings.training)
            self._rows += [MetricRow(server_round, client, None, DIVERGED, 1) for client in wild]
            log.warning("round %d: %s", server_round, diverged)
        registry = self.population.registry
        registry.bind(uploads)
        registry.departures.retired |= self.transport.delivery.unregistered
        if self.settings.rounds.clients_per_round:
            self.memory.trained |= uploads.keys()
        self.transport.forget_silent()
        self._answered = dict.fromkeys(self.transport.asked, False) | dict.fromkeys(uploads, True)
        self._slow = self.transport.delivery.pace.slow
        # Who was sent what no device takes has no say: the state is to blame, as when most uploads
        # that came of it cannot be used.
        silent = [client for client in self.transport.asked if client not in uploads]
        largest = self.settings.wire.largest
        refused |= {client for client in silent if not self.delivered[client].within(largest)}
        broken = self._undoing.broken(refused, self.transport.asked)
        if broken and (self._take_out(server_round) or self._undo(server_round, diverged)):
            # That theirs could not be used is not the others' fault: nobody rests for it.
            self._answered = {}
            return None, None
        self._demand_quorum(server_round, len(uploads), diverged)
        turn, before = self.turn(server_round), self.state
        uploads = dict(sorted(uploads.items()))
        placed, sent = (
            {client: self.placed(before, client, bundles[client], turn) for client in uploads}
            for bundles in (uploads, self.delivered)
        )
        if self.sums is not None and self.transport.sends:
            self._take_sum(self.sums, turn, uploads)
            return None, None
        if self.means is not None and self.transport.sends:
            self._take_noised(self.means, turn, uploads)
            return None, None
        # First, for a method may change its state in place.
        self._undoing.note(before, placed, sent, self.transport.sends)
        with self.own_time:
            self.state, rows = self.aggregate(before, uploads, turn)
        self._rows += rows
        return None, None

    def _take_out(self, round: int) -> bool:
        """Take clients out of the state whose part leads others astray; False: none is known."""
        assert self.state is not None
        found = self.astray(self.state)
        for client in found:
            self.state = self.without(self.state, client)
        if found:
            self.leave_out(round, found)
            log.warning(
                "round %d: most uploads cannot be used. Taken out and left out from now on, as no "
                "samples lead to what they had sent: %s",
                round,
                ", ".join(found),
            )
        return bool(found)

    def leave_out(self, round: int, clients: Sequence[str]) -> None:
        """Leave clients out of training from now on, and note it in the round's rows."""
        self.memory.left_out |= set(clients)
        self._rows += [MetricRow(round, client, None, "left_out", 1) for client in clients]

    def _undo(self, round: int, diverged: str = "") -> bool:
        """Go back to an earlier state, without who led away from it; False: impossible.

        `diverged` says so where uploads held no finite numbers.
        """
        undone = self._undoing.undo(self.memory.left_out, self.begin())
        if undone is None:
            return False
        state, found = undone
        assert self.state is not None
        state = self.gone_back(state, self.state)
        for client in found:
            state = self.without(state, client)
        self.state = state
        self.leave_out(round, found)
        self._rows.append(MetricRow(round, "", None, "undone", 1))
        rate = " (honest ones, if the learning rate is too high)" if diverged else ""
        log.warning(
            "round %d: most uploads cannot be used; the server goes back to an earlier state. Left "
            "out from now on, as they moved most what came after it: %s",
            round,
            (", ".join(found) or "nobody else; it begins anew") + rate,
        )
        return True

    def configure_evaluate(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        """Ask every client for its model's metrics on its test part, unless they came before."""
        turn = self.turn(server_round)
        known = self._metrics.found if self._metrics is not None else {}
        # Who was silent while it should train would make everybody wait a second time.
        silent = self.transport.delivery.silent
        clients = [
            c for c in self.population.evaluated(server_round) if c not in known and c not in silent
        ]
        instructions = self._instructions(turn, False)
        with self.own_time:
            downloads = self.evaluated_downloads(clients, turn)
        return self.transport.write(
            MessageType.EVALUATE,
            dict.fromkeys(clients, instructions),
            downloads,
            self.population.nodes,
            self.settings.rounds.round_timeout,
            self.link,
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

    def _demand_quorum(self, round: int, usable: int, diverged: str) -> None:
        # Who left for good while it was asked is no part of the round.
        asked = len(set(self.transport.asked) - self.transport.delivery.unregistered)
        needed = max(1, math.ceil(self.settings.rounds.quorum * asked))
        if usable < needed:
            why = (
                f" (refused so far: {dict(self.transport.refusals) or 'none'}); the log says why. "
                "Finished rounds are kept: the run can be resumed"
            )
            if diverged:  # with the same rate it would end again
                why = f". {diverged}"
            raise RunError(
                f"round {round}: {usable} of {asked} clients sent a usable upload within the "
                f"round's deadline, expected {needed} at least{why}"
            )

    def _note_anew(self, client: str, round: int) -> None:
        """Note that a known device has lost its state of this run; a newcomer never had one."""
        if last := self.transport.usable.get(client):
            self._rows.append(MetricRow(round, client, None, ANEW, last))
            log.warning(
                "client %s: begins anew in round %d: its device keeps no state of this run that it "
                "can use, though it trained round %d. Was its state-dir lost or changed?",
                client,
                round,
                last,
            )

    def _take_metrics(self, client: str, content: Content, round: int) -> bool:
        """Take a client's metrics of its model; return whether they could be used."""
        if self._metrics is None:
            self._metrics = RoundMetrics(round, self.model.classes)
        try:
            self._metrics.take(client, content)
        except MessageRefused as error:
            self.transport.refuse(client, round, error)
            return False
        return True
