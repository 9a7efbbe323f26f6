"""Questions about a secure sum, which clients answer beside the messages of a round."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from flwr.app import ConfigRecord, Message, MessageType, RecordDict

from fedsub_core.errors import MessageRefused, cut
from fedsub_core.secure.messages import SECURE
from fedsub_core.wire.leaving import LEAVE
from strategies.rounds.link import Link
from strategies.rounds.transport import Transport

log = logging.getLogger("fedsub")
#: Keys of an answer at most.
MOST_KEYS = 8


def ask(
    transport: Transport,
    link: Link,
    questions: Mapping[str, Mapping[str, Any]],
    take: Callable[[str, Mapping[str, Any]], None],
    nodes: Mapping[str, int],
    round: int,
    timeout: float,
    most: int = 0,
) -> None:
    """Ask clients about a secure sum; `take` each answer, and count what is none as refused.

    How many answers `most` are is :meth:`Delivery.exchange`'s.
    """
    delivery, traffic = transport.delivery, transport.traffic
    refused: list[object] = []

    def refuse(client: str, why: object) -> None:
        refused.append(why)
        transport.refuse(client, round, why)

    def messages() -> Iterator[tuple[str, Message]]:
        for client, question in sorted(questions.items()):
            record = ConfigRecord(dict(question))
            traffic.add_record(client, record)
            content, to = RecordDict({SECURE: record}), nodes[client]
            envelope: dict[str, Any] = {"ttl": 2 * timeout, "group_id": str(round)}
            yield client, Message(content, to, MessageType.QUERY, **envelope)

    for reply in delivery.exchange(link, messages(), timeout, nodes, most):
        client = delivery.client_of(reply)
        if reply.has_error():
            why = f"error {reply.error.code}: {cut(reply.error.reason)}"
            refuse(client, why)
            continue
        if LEAVE in reply.content:
            transport.left.add(client)
            continue
        record = reply.content.get(SECURE)
        try:
            if not isinstance(record, ConfigRecord) or len(record) > MOST_KEYS:
                raise MessageRefused(client, round, "secure sum", "no answer", "a record of it")
            take(client, record)
        except MessageRefused as error:
            refuse(client, error)
            continue
        traffic.add_record(client, record)
        delivery.note_usable(client)
    if 2 * len(refused) > len(questions):
        log.warning(
            "round %d: %d of %d people refused their part in the sum, the first of them: %s",
            round,
            len(refused),
            len(questions),
            refused[0],
        )
