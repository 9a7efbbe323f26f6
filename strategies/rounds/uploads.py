"""The uploads of a round: what came, what of it can be used, and whether that is enough."""

from __future__ import annotations

import logging
import math
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field, replace

from flwr.app import Message

from fedsub_core.errors import MessageRefused, NumbersRefused, RunError, cut
from fedsub_core.metric_names import ANEW, DIVERGED
from fedsub_core.metrics import MetricRow
from fedsub_core.wire import exchange
from fedsub_core.wire.bundles import Bundle
from strategies.rounds.connection import Connection
from strategies.rounds.context import Sender
from strategies.rounds.late import Late, late_rows
from strategies.rounds.memory import Memory
from strategies.rounds.on_disk import OnDisk
from strategies.rounds.own_time import OwnTime
from strategies.rounds.round import Round
from strategies.rounds.round_log import RoundLog, RoundMetrics
from strategies.rounds.server_half import ServerHalf, State

log = logging.getLogger("fedsub")

#: Clients that a warning names at most.
NAMED = 10


@dataclass
class Uploads:
    """The answers of a round's clients.

    Parameters
    ----------
    usable : that passed every check, by client.
    refused : whose could not be used.
    wild : those of them that held no finite numbers, or too large ones.
    rows : what devices report beside their uploads.
    late : uploads of earlier rounds that passed every check, by client.
    """

    usable: dict[str, Bundle] = field(default_factory=dict)
    refused: set[str] = field(default_factory=set)
    wild: dict[str, NumbersRefused] = field(default_factory=dict)
    rows: list[MetricRow] = field(default_factory=list)
    late: dict[str, Late] = field(default_factory=dict)

    def note(self, note: RoundLog, connection: Connection) -> None:
        """Note the answers in the round's log, and for the rounds that follow."""
        transport, registry = connection.transport, connection.population.registry
        registry.bind(self.usable)
        registry.departures.retired |= transport.delivery.unregistered
        transport.forget_silent()
        note.rows += self.rows
        waited = [c for c in transport.asked if c not in transport.delivery.spared]
        note.answered = dict.fromkeys(waited, False)
        note.answered |= dict.fromkeys([*self.usable, *self.late], True)
        note.slow = transport.delivery.pace.slow

    def remember(self, memory: Memory, round: Round, connection: Connection) -> None:
        """Keep in the run's memory whose upload came, and when."""
        came, rounds, link = [*self.usable, *self.late], connection.rounds, connection.link
        if rounds.clients_per_round:
            memory.trained = memory.trained.union(came)
        if not link.closed:
            memory.upload_times.note_used(came, link.clock.wall, rounds.pause_hours)
        if rounds.by_attendance:
            asked = connection.transport.asked
            memory.attendance.note(round.number, round.present, asked, came)

    def refused_for(self, round: Round, asked: Collection[str], largest: float) -> set[str]:
        """Return the clients that were refused, or that were sent numbers above the `largest`.

        The latter have no say, as no device takes them: the state is to blame, as when most uploads
        that came of it cannot be used.
        """
        silent = set(asked) - self.usable.keys()
        return self.refused | {c for c in silent if not round.sent[c].within(largest)}


def take_uploads(
    half: ServerHalf,
    state: State,
    round: Round,
    connection: Connection,
    replies: Iterable[Message],
    metrics: RoundMetrics,
    also: frozenset[str],
    own_time: OwnTime,
) -> Uploads:
    """Decode and check a round's uploads.

    Parameters
    ----------
    metrics : takes the metrics that come beside an upload.
    also : whose are expected there.
    """
    transport, population = connection.transport, connection.population
    uploads, number, usual = Uploads(), round.number, population.usual_examples()
    on_disk = OnDisk(half.keeps, connection.link.in_process)
    known = population.registry.introductions
    for client, content, of in transport.read(number, replies):
        in_time = of == number
        if (client in also or not in_time) and exchange.METRICS in content:
            take_metrics(metrics, connection, client, content)
        try:
            last = transport.usable.get(client, 0)
            told = round if in_time else connection.past.of(of, client, round, last, known)
            came, sender = transport.decode(client, content, told), Sender(client, told.turn)
            upload = told.as_sent(client, came)
            if not upload.examples > 0:
                raise sender.refuse("examples", upload.examples, "1 or more")
            with own_time:
                half.check(state, told, sender, upload)
        except (MessageRefused, ValueError) as error:
            transport.refuse(client, number, error)
            if in_time:
                uploads.refused.add(client)
            if isinstance(error, NumbersRefused):
                uploads.wild[client] = error
            continue
        # Beyond what a device said before the first round it may have what most have, no more.
        most = max(population.facts(client).examples, usual)
        upload = replace(upload, examples=min(upload.examples, int(most)))
        transport.accept(client, came, content, told, late=not in_time)
        if not in_time:
            uploads.late[client] = Late(upload, told, number - of)
            continue
        report = exchange.read_report(content, {*half.card.reports, ANEW})
        if report.pop(ANEW, 0) and last:
            uploads.rows.append(_anew(client, number, last))
        uploads.usable[client] = upload
        on_disk.put(client, uploads.usable)
        report["bytes_full_model"] = round.model.full_bytes
        uploads.rows += [MetricRow(number, client, None, name, v) for name, v in report.items()]
    uploads.usable = dict(sorted(uploads.usable.items()))
    # Who has sent a newer one since has no part twice.
    uploads.late = {c: uploads.late[c] for c in sorted(uploads.late.keys() - uploads.usable.keys())}
    uploads.rows += late_rows(number, uploads.late)
    return uploads


def _anew(client: str, round: int, last: int) -> MetricRow:
    """Say that a device has lost its state, which a newcomer never had; return its row."""
    log.warning(
        "client %s: begins anew in round %d: its device keeps no state of this run that it can "
        "use, though it trained round %d. Was its state-dir lost or changed?",
        client,
        round,
        last,
    )
    return MetricRow(round, client, None, ANEW, last)


def take_metrics(
    metrics: RoundMetrics, connection: Connection, client: str, content: exchange.Content
) -> bool:
    """Take a client's metrics of its model; return whether they could be used."""
    try:
        metrics.take(client, content)
    except MessageRefused as error:
        connection.transport.refuse(client, metrics.round, error)
        return False
    return True


def warn_of_divergence(uploads: Uploads, round: int, asked: int, half: ServerHalf) -> str:
    """Warn of uploads without finite numbers, or with huge ones; return the warning, "" of none.

    Parameters
    ----------
    asked : how many were asked to train.
    """
    wild = uploads.wild
    if not wild:
        return ""
    uploads.rows += [MetricRow(round, client, None, DIVERGED, 1) for client in wild]
    named = [f"{client} ({error.what})" for client, error in sorted(wild.items())[:NAMED]]
    more = f" and {len(wild) - NAMED} more" if len(wild) > NAMED else ""
    error = next(iter(wild.values()))
    warning = (
        f"{len(wild)} of {asked} uploads are not used, for {error.got} (expected "
        f"{error.expected}): {cut(', '.join(named))}{more}. "
    )
    if keys := half.card.rate_keys:
        own = (getattr(half.hyper, rate) for rate in half.card.training.rates)
        values = [half.settings.training.lr, *own]
        rates = " or ".join(f"{k} ({v:g})" for k, v in zip(keys, values, strict=True))
        warning += (
            f"So ends training that diverged, at too high a learning rate: lower {rates}. A device "
            "that lies may send the same"
        )
    else:
        warning += "No device computes such numbers of its samples"
    log.warning("round %d: %s", round, warning)
    return warning


def demand_quorum(connection: Connection, round: int, usable: int, diverged: str = "") -> None:
    """Raise RunError if too few of those asked sent an upload that can be used.

    Parameters
    ----------
    diverged : says so where uploads held no finite numbers.
    """
    transport = connection.transport
    # Who left for good while it was asked is no part of the round.
    asked = len(set(transport.asked) - transport.delivery.unregistered - transport.left)
    wanted = min(asked, connection.rounds.enough or asked)
    needed = max(1, math.ceil(connection.rounds.quorum * wanted))
    if usable >= needed:
        return
    why = (
        f" (refused so far: {dict(transport.refusals) or 'none'}); the log says why. "
        "Finished rounds are kept: the run can be resumed"
    )
    if diverged:  # with the same rate it would end again
        why = f". {diverged}"
    raise RunError(
        f"round {round}: {usable} of {asked} clients sent a usable upload within the "
        f"round's deadline, expected {needed} at least{why}"
    )
