"""A link whose every answer is scripted, on a clock that only waiting moves."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from flwr.app import ConfigRecord, Error, Message, MessageType, RecordDict
from flwr.common.constant import SUPERLINK_NODE_ID
from flwr.proto.node_pb2 import NodeInfo

from strategies.rounds.clock import Clock
from strategies.rounds.delivery import Delivery
from strategies.rounds.link import Link

from ...partial_grid import PartialGrid

NODES = {"anna": 11, "ben": 12, "cleo": 13}
LOST = {
    3: "message unavailable",
    4: "reply unavailable",
    5: "node unavailable",
    8: "crashed",
}
POLL = 0.25


@dataclass(frozen=True)
class Fate:
    """What becomes of one message: by default a reply, at once.

    `error` is its code; `after` counts seconds; `taken` is False where the link refuses it.
    """

    after: float = 0.0
    error: int | None = None
    silent: bool = False
    taken: bool = True


@dataclass
class ScriptedLink(PartialGrid):
    """A Grid. The n-th message to a node has the n-th fate of its script, the last one for ever."""

    clock: Clock
    script: dict[int, list[Fate]] = field(default_factory=dict)
    away: dict[int, tuple[float, float]] = field(default_factory=dict)
    #: Seconds between two times that a node is let in.
    restless: dict[int, float] = field(default_factory=dict)
    no_id: str | None = ""
    shorter: bool = False
    sent: list[tuple[float, int, Message]] = field(default_factory=list)
    looks: list[float] = field(default_factory=list)
    _due: list[tuple[float, Message]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.start = self.clock.now

    @property
    def seconds(self) -> float:
        return self.clock.now - self.start

    def get_node_ids(self) -> list[int]:
        self.looks.append(self.seconds)
        gone = {n for n, (since, until) in self.away.items() if since <= self.seconds < until}
        return [node for node in NODES.values() if node not in gone]

    def get_nodes(self) -> list[NodeInfo]:
        return [
            NodeInfo(node_id=node, last_activated_at=f"time {self._times_let_in(node)}")
            for node in self.get_node_ids()
        ]

    def _times_let_in(self, node: int) -> int:
        every = self.restless.get(node, 0.0)
        return int(self.seconds // every) if every else 0

    def push_messages(self, messages: Iterable[Message]) -> list[Any]:
        assert isinstance(messages, list) and messages
        ids: list[Any] = []
        for message in messages:
            node = message.metadata.dst_node_id
            fates = self.script.get(node, [Fate()])
            fate = fates[min(sum(n == node for _, n, _ in self.sent), len(fates) - 1)]
            self.sent.append((self.seconds, node, message))
            identity = f"message-{len(self.sent)}"
            message.metadata.__dict__["_message_id"] = identity
            if not fate.taken:
                ids += [] if self.shorter else [self.no_id]
                continue
            ids.append(identity)
            if fate.error is not None:
                said = Error(fate.error, LOST.get(fate.error, "the app's own"))
                reply = Message(said, reply_to=message)
                reply.metadata.__dict__["_src_node_id"] = SUPERLINK_NODE_ID
            else:
                reply = Message(message.content, reply_to=message)
            if not fate.silent:
                # A node that is offline gets it once it is back.
                since, until = self.away.get(node, (0.0, 0.0))
                offline = fate.error is None and since <= self.seconds < until
                wait = until - self.seconds if offline else 0.0
                self._due.append((self.clock.now + wait + fate.after, reply))
        return ids

    def pull_messages(self, message_ids: Iterable[str]) -> list[Message]:
        wanted = set(message_ids)
        found = [
            (due, reply)
            for due, reply in self._due
            if due <= self.clock.now and reply.metadata.reply_to_message_id in wanted
        ]
        self._due = [item for item in self._due if item not in found]
        return [reply for _, reply in found]

    def times(self, client: str) -> list[float]:
        """When a message was sent to the client, seconds from the start."""
        return [seconds for seconds, node, _ in self.sent if node == NODES[client]]


class Server:
    """A delivery over a link, and what comes of it."""

    def __init__(self, link: ScriptedLink, poll: float = POLL) -> None:
        self.link, self.delivery = link, Delivery(poll)

    def ask(
        self,
        *clients: str,
        timeout: float = 10.0,
        round: int = 1,
        most: int = 0,
        quorum: float = 0.0,
        looked: bool = False,
    ) -> list[tuple[str, str]]:
        """Return the clients that answered, and each answer: client and round asked, or an error.

        `looked`: whether the nodes were looked at before, as rounds do.
        """
        answers, link = [], Link(self.link)
        if looked:
            link.nodes()
        self.delivery.quorum = quorum
        asked = [(client, message(client, round)) for client in (clients or NODES)]
        for reply in self.delivery.exchange(link, asked, timeout, NODES, most):
            if reply.has_error():
                said = f"error {reply.error.code}"
            else:
                asked_of = reply.content.config_records["to"]
                said = " ".join(str(asked_of[key]) for key in ("client", "round"))
                if most:
                    self.delivery.note_usable(self.delivery.client_of(reply))
            answers.append((self.delivery.client_of(reply), said))
        return answers

    def counts(self) -> dict[str, dict[str, int]]:
        """Return what was counted since the last call."""
        counted = self.delivery.counts()
        return {what: dict(count) for what, count in counted.items() if count}


def message(client: str, round: int) -> Message:
    content = RecordDict({"to": ConfigRecord({"client": client, "round": round})})
    kind = MessageType.TRAIN
    return Message(content, NODES[client], kind, ttl=77.0, group_id=str(round))


#: The fixture `serve`.
Serve = Callable[..., Server]
