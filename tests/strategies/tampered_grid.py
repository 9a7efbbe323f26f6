"""A Grid that reads, changes, drops or reorders what the clients of an engine reply."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from flwr.app import ConfigRecord, Message, MessageType

from fedsub.engines.cohort_grid import CohortGrid
from fedsub_core.wire import exchange
from fedsub_core.wire.v2 import exchange_pb2 as pb
from strategies.rounds.clock import Clock

from .partial_grid import PartialGrid
from .sent_bundle import SentBundle


@dataclass(frozen=True)
class Reply:
    """One reply on its way to the server: to change, to replace or to drop (None)."""

    kind: str
    client: str
    round: int
    message: Message
    asked: Message

    def bundle(self) -> SentBundle:
        """Return the upload that the reply carries."""
        return SentBundle.of(self.message)

    def with_payload(self, payload: bytes) -> Message:
        """Return the reply with another payload."""
        self.message.content[exchange.PAYLOAD] = exchange.pack(payload)
        return self.message

    def with_bundle(self, bundle: pb.Bundle) -> Message:
        """Return the reply with another upload."""
        return self.with_payload(bundle.SerializeToString())


Tamper = Callable[[Reply], Message | None]


class _SameHour(Clock):
    """A clock by which no hours pass, so that what is kept of hours is the same in all runs."""

    wall = 0.0


class TamperedGrid(PartialGrid):
    """A CohortGrid with somebody between it and the server.

    Parameters
    ----------
    tamper : returns each reply as it shall arrive, or None for one that is lost.
    backwards : whether replies arrive in the opposite order.
    """

    clock = _SameHour()

    def __init__(self, grid: CohortGrid, tamper: Tamper | None, backwards: bool = False) -> None:
        self.grid, self.tamper, self.backwards = grid, tamper, backwards
        #: Who was written to, in the order of the messages: round and clients.
        self.trained: list[tuple[int, tuple[str, ...]]] = []
        self.evaluated: list[tuple[int, tuple[str, ...]]] = []
        #: What the server told beside its downloads, last.
        self.instructions: ConfigRecord | None = None
        #: What went over the wire, by round and client: before training, after it, to evaluate.
        self.downloads: dict[tuple[int, str], SentBundle] = {}
        self.uploads: dict[tuple[int, str], SentBundle] = {}
        self.evaluations: dict[tuple[int, str], SentBundle] = {}
        self.waiting: list[Message] = []

    def get_node_ids(self) -> Iterable[int]:
        return self.grid.get_node_ids()

    def pull_messages(self, message_ids: Iterable[str]) -> Iterable[Message]:
        wanted = set(message_ids)
        found = [m for m in self.waiting if m.metadata.reply_to_message_id in wanted]
        self.waiting = [m for m in self.waiting if m not in found]
        return found

    def push_messages(self, messages: Iterable[Message]) -> Iterable[str]:
        sent = list(messages)
        asked = [self._note(message) for message in sent]
        if sent and sent[0].metadata.message_type != MessageType.QUERY:
            training = sent[0].metadata.message_type == MessageType.TRAIN
            log = self.trained if training else self.evaluated
            log.append((asked[0][1], tuple(client for client, _ in asked)))
        replies = list(self.grid.send_and_receive(sent))
        by_id = {m.metadata.message_id: (m, *a) for m, a in zip(sent, asked, strict=True)}
        passed = []
        for message in replies:
            question, client, round = by_id[message.metadata.reply_to_message_id]
            reply = Reply(question.metadata.message_type, client, round, message, question)
            if reply.kind == MessageType.TRAIN and not message.has_error():
                self.uploads[round, client] = reply.bundle()
            answer = self.tamper(reply) if self.tamper is not None else message
            if answer is not None:
                passed.append(answer)
        self.waiting += passed[::-1] if self.backwards else passed
        return list(by_id)

    def _note(self, message: Message) -> tuple[str, int]:
        """Note what is sent; return to which client and in which round."""
        if message.metadata.message_type == MessageType.QUERY:
            return "", 0
        self.instructions = message.content.config_records[exchange.TURN]
        bundle = SentBundle.of(message)
        training = message.metadata.message_type == MessageType.TRAIN
        address = bundle.message.client_id, bundle.message.round
        (self.downloads if training else self.evaluations)[address[1], address[0]] = bundle
        return address
