"""What the clients of a cohort answer to the server's messages, all of a kind at once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from flwr.app import Error, Message, MessageType, RecordDict

from fedsub_client.cohort import NOTHING, Cohort
from fedsub_core.errors import MessageRefused
from fedsub_core.wire import exchange, handshake
from fedsub_core.wire.bundle_tensors import LastTensors
from fedsub_core.wire.bundles import Bundle
from fedsub_core.wire.exchange import Instructions
from fedsub_core.wire.handed import answer, content_of

#: The place in its cohort of each client that is asked, and its message.
Asked = list[tuple[int, Message]]


@dataclass(frozen=True)
class _Read:
    """One client's message, read."""

    place: int
    message: Message
    told: Instructions
    received: Bundle


def _query(cohort: Cohort, asked: Asked) -> list[Message]:
    said = [introduction.record() for introduction in cohort.introductions()]
    return [
        Message(RecordDict({handshake.HANDSHAKE: said[i]}), reply_to=message)
        for i, message in asked
    ]


def _read(cohort: Cohort, asked: Asked) -> tuple[list[_Read], list[Message]]:
    """Read each client's message; one whose download is refused is answered with an error."""
    good: list[_Read] = []
    errors: list[Message] = []
    last, record, told = LastTensors(), None, None
    for i, message in asked:
        content = content_of(message)
        if told is None or content[exchange.TURN] is not record:
            record = content[exchange.TURN]
            told = exchange.read_instructions(record)
        try:
            payload = exchange.payload_of(content)
            received = cohort.decode(i, payload, told.turn.round, last)
            good.append(_Read(i, message, told, received))
        except (MessageRefused, ValueError) as error:
            errors.append(Message(Error(0, str(error)), reply_to=message))
    return good, errors


def _train(cohort: Cohort, asked: Asked) -> list[Message]:
    good, replies = _read(cohort, asked)
    if not good:
        return replies
    told, index = good[0].told, [one.place for one in good]
    uploads, reports = cohort.fit(told.turn, told.scaling, index, [one.received for one in good])
    metrics = _metrics(cohort, [(one, NOTHING) for one in good if one.told.also_evaluate])
    for one, upload, report in zip(good, uploads, reports, strict=True):
        payload = cohort.encode(one.place, upload, one.received, told.turn.round)
        content: dict[str, Any] = {exchange.PAYLOAD: payload}
        if report:
            content[exchange.REPORT] = dict(report)
        if one.place in metrics:
            content[exchange.METRICS] = metrics[one.place]
        replies.append(answer(content, one.message))
    return replies


def _evaluate(cohort: Cohort, asked: Asked) -> list[Message]:
    good, replies = _read(cohort, asked)
    metrics = _metrics(cohort, [(one, one.received) for one in good])
    for one in good:
        replies.append(answer({exchange.METRICS: metrics[one.place]}, one.message))
    return replies


def _metrics(cohort: Cohort, asked: list[tuple[_Read, Bundle]]) -> dict[int, dict[str, float]]:
    """Test the models of some clients, as they are after a bundle; by place in the cohort."""
    if not asked:
        return {}
    told, index = asked[0][0].told, [one.place for one, _ in asked]
    received = [bundle for _, bundle in asked]
    state = cohort.personalised(told.turn, told.scaling, index, received)
    found = cohort.evaluate(told.turn, told.scaling, index, state).clients()
    return {i: exchange.metric_values(metrics) for i, metrics in zip(index, found, strict=True)}


ANSWERS: dict[str, Callable[[Cohort, Asked], list[Message]]] = {
    MessageType.QUERY: _query,
    MessageType.TRAIN: _train,
    MessageType.EVALUATE: _evaluate,
}
