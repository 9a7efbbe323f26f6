"""Messages to the clients of a cohort and their replies, all of a kind at once."""

from __future__ import annotations

from collections.abc import Sequence

from flwr.app import Error, Message, MessageType, RecordDict

from fedsub_client.answers import Asked, evaluate, train
from fedsub_client.cohort import Cohort
from fedsub_core.errors import MessageRefused
from fedsub_core.wire import exchange, handshake
from fedsub_core.wire.bundle_tensors import LastTensors
from fedsub_core.wire.handed import answer, content_of

_WORK = {MessageType.TRAIN: train, MessageType.EVALUATE: evaluate}


def replies(cohort: Cohort, kind: str, messages: Sequence[Message]) -> list[Message]:
    """Let a cohort's clients answer messages of a kind, one to each, in their order."""
    if kind == MessageType.QUERY:
        said = [RecordDict({handshake.HANDSHAKE: i.record()}) for i in cohort.introductions()]
        return [Message(own, reply_to=m) for own, m in zip(said, messages, strict=True)]
    good, refused = _read(cohort, messages)
    contents, _ = _WORK[kind](cohort, good)
    answered = zip(good, contents, strict=True)
    return refused + [answer(content, messages[one.place]) for one, content in answered]


def _read(cohort: Cohort, messages: Sequence[Message]) -> tuple[list[Asked], list[Message]]:
    """Read each client's message; one whose download is refused is answered with an error."""
    good, refused = list[Asked](), list[Message]()
    last, record, told = LastTensors(), None, None
    for i, message in enumerate(messages):
        content = content_of(message)
        if told is None or content[exchange.TURN] is not record:
            record = content[exchange.TURN]
            told = exchange.read_instructions(record)
        try:
            payload = exchange.payload_of(content)
            good.append(Asked(i, told, cohort.decode(i, payload, told.turn.round, last)))
        except (MessageRefused, ValueError) as error:
            refused.append(Message(Error(0, str(error)), reply_to=message))
    return good, refused
