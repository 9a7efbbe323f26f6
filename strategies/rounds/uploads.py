"""The uploads of a round: what came, what of it can be used, and whether that is enough."""

from __future__ import annotations

import logging
import math
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from flwr.app import Message

from fedsub_core.errors import MessageRefused, NumbersRefused, RunError
from fedsub_core.metric_names import ANEW
from fedsub_core.metrics import MetricRow
from fedsub_core.wire import exchange
from fedsub_core.wire.bundles import Bundle
from strategies.rounds.connection import Connection
from strategies.rounds.context import Sender
from strategies.rounds.own_time import OwnTime
from strategies.rounds.round import Round
from strategies.rounds.round_metrics import RoundMetrics
from strategies.rounds.server_half import ServerHalf, State
from strategies.rounds.transport import Transport

log = logging.getLogger("fedsub")


@dataclass
class Uploads:
    """The answers of a round's clients.

    Parameters
    ----------
    usable : that passed every check, by client.
    refused : whose could not be used.
    wild : those of them that held no finite numbers, or too large ones.
    rows : what devices report beside their uploads.
    """

    usable: dict[str, Bundle] = field(default_factory=dict)
    refused: set[str] = field(default_factory=set)
    wild: dict[str, NumbersRefused] = field(default_factory=dict)
    rows: list[MetricRow] = field(default_factory=list)


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
    found, number, usual = Uploads(), round.number, population.usual_examples()
    for client, content in transport.read(number, replies):
        sender = Sender(client, round.turn)
        if client in also and exchange.METRICS in content:
            take_metrics(metrics, connection, client, content)
        try:
            upload = transport.decode(client, content, round)
            if not upload.examples > 0:
                raise sender.refuse("examples", upload.examples, "1 or more")
            with own_time:
                half.check(state, round, sender, upload)
        except (MessageRefused, ValueError) as error:
            transport.refuse(client, number, error)
            found.refused.add(client)
            if isinstance(error, NumbersRefused):
                found.wild[client] = error
            continue
        report = exchange.read_report(content, {*half.card.reports, ANEW})
        if report.pop(ANEW, 0) and (last := transport.usable.get(client)):
            # A newcomer never had a state.
            found.rows.append(MetricRow(number, client, None, ANEW, last))
            log.warning(
                "client %s: begins anew in round %d: its device keeps no state of this run that it "
                "can use, though it trained round %d. Was its state-dir lost or changed?",
                client,
                number,
                last,
            )
        transport.accept(client, upload, content, round)
        # Beyond what a device said before the first round it may have what most have, no more.
        most = max(population.facts(client).examples, usual)
        found.usable[client] = replace(upload, examples=min(upload.examples, int(most)))
        report["bytes_full_model"] = round.model.full_bytes
        found.rows += [MetricRow(number, client, None, name, v) for name, v in report.items()]
    found.usable = dict(sorted(found.usable.items()))
    return found


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


def demand_quorum(
    transport: Transport, quorum: float, round: int, usable: int, diverged: str = ""
) -> None:
    """Raise RunError if too few of those asked sent an upload that can be used.

    Parameters
    ----------
    quorum : share of them.
    diverged : says so where uploads held no finite numbers.
    """
    # Who left for good while it was asked is no part of the round.
    asked = len(set(transport.asked) - transport.delivery.unregistered)
    needed = max(1, math.ceil(quorum * asked))
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
