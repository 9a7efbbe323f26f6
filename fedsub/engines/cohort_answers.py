"""What the clients of a cohort answer to the server's messages, all of a kind at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from flwr.app import Error, Message, MessageType, MetricRecord, RecordDict

from fedsub_client.cohort import Cohort
from fedsub_core.errors import MessageRefused
from fedsub_core.wire import exchange, handshake
from fedsub_core.wire.bundles import Download

#: The place in its cohort of each client that is asked, and its message.
Asked = list[tuple[int, Message]]


def _query(cohort: Cohort, asked: Asked) -> list[Message]:
    said = [handshake.opening_record(opening) for opening in cohort.openings()]
    return [
        Message(RecordDict({handshake.OPENING: said[i]}), reply_to=message) for i, message in asked
    ]


def _opened(cohort: Cohort, asked: Asked) -> tuple[Asked, list[Download], list[Message]]:
    """Decode each client's download; one that is refused is answered with an error."""
    good: Asked = []
    downloads: list[Download] = []
    errors: list[Message] = []
    for i, message in asked:
        round, _ = exchange.read_order(message.content.config_records[exchange.ORDER])
        try:
            downloads.append(cohort.open(i, exchange.unpack(message.content), round))
            good.append((i, message))
        except (MessageRefused, ValueError) as error:
            errors.append(Message(Error(0, str(error)), reply_to=message))
    return good, downloads, errors


def _train(cohort: Cohort, asked: Asked) -> list[Message]:
    good, downloads, replies = _opened(cohort, asked)
    if good:
        order = good[0][1].content.config_records[exchange.ORDER]
        round, scaling = exchange.read_order(order)
        uploads = cohort.fit(round, scaling, [i for i, _ in good], downloads)
        metrics = _metrics(cohort, good, [Download()] * len(good)) if _also(good) else {}
        for (i, message), upload, download in zip(good, uploads, downloads, strict=True):
            payload = cohort.seal(i, upload, download, round)
            content = RecordDict({exchange.PAYLOAD: exchange.pack(payload)})
            if exchange.EVALUATE in message.content.config_records[exchange.ORDER]:
                content[exchange.METRICS] = metrics[i]
            replies.append(Message(content, reply_to=message))
    return replies


def _evaluate(cohort: Cohort, asked: Asked) -> list[Message]:
    good, downloads, replies = _opened(cohort, asked)
    if good:
        metrics = _metrics(cohort, good, downloads)
        for i, message in good:
            content = RecordDict({exchange.METRICS: metrics[i]})
            replies.append(Message(content, reply_to=message))
    return replies


def _also(asked: Asked) -> bool:
    """Return whether anybody is to evaluate after training."""
    orders = (message.content.config_records[exchange.ORDER] for _, message in asked)
    return any(exchange.EVALUATE in order for order in orders)


def _metrics(
    cohort: Cohort, asked: Asked, downloads: Sequence[Download]
) -> dict[int, MetricRecord]:
    """Evaluate the clients asked, and return their metrics by place in the cohort."""
    order = asked[0][1].content.config_records[exchange.ORDER]
    round, scaling = exchange.read_order(order)
    index = [i for i, _ in asked]
    evaluation, reports = cohort.evaluate(round, scaling, index, downloads), cohort.reports()
    return {
        i: exchange.metrics_record(metrics, reports[i])
        for i, metrics in zip(index, evaluation.clients(), strict=True)
    }


ANSWERS: dict[str, Callable[[Cohort, Asked], list[Message]]] = {
    MessageType.QUERY: _query,
    MessageType.TRAIN: _train,
    MessageType.EVALUATE: _evaluate,
}
