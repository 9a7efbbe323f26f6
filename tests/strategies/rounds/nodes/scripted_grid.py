"""A Grid whose nodes come, go, keep silent and lie, on a clock of the test's."""

from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np
from flwr.app import Error, Message, MessageType, RecordDict
from flwr.proto.node_pb2 import NodeInfo

from fedsub_core.data.standardise import Moments
from fedsub_core.version import VERSION
from fedsub_core.wire import handshake
from fedsub_core.wire.handshake import Facts, Introduction

from ...partial_grid import PartialGrid
from ...waiting_clock import BEGIN, WaitingClock


@dataclass
class ScriptedGrid(PartialGrid):
    """A Grid whose connected nodes answer with the client id they have here.

    Nodes in `errors` answer with that code, those in `silent` not at all, those in `odd` have
    other classes than the rest; the link takes no message for nodes in `unknown`. Nodes in
    `arrivals` connect at that second, those in `departures` leave. All have a heartbeat every
    `beat` seconds; those in `answers` answer their first question at that second.
    """

    clock: WaitingClock
    clients: dict[int, str]
    errors: dict[int, int] = field(default_factory=dict)
    silent: set[int] = field(default_factory=set)
    odd: set[int] = field(default_factory=set)
    unknown: set[int] = field(default_factory=set)
    arrivals: dict[int, float] = field(default_factory=dict)
    departures: dict[int, float] = field(default_factory=dict)
    beat: float = 1e9
    answers: dict[int, float] = field(default_factory=dict)
    asked: list[int] = field(default_factory=list)
    _replies: list[Message] = field(default_factory=list)
    _open: dict[int, Message] = field(default_factory=dict)

    def get_node_ids(self) -> list[int]:
        return [
            node
            for node in self.clients
            if self.arrivals.get(node, 0) <= self.seconds < self.departures.get(node, 1e9)
        ]

    def get_nodes(self) -> list[NodeInfo]:
        beats = self.seconds // self.beat
        return [NodeInfo(node_id=node, online_until=beats) for node in self.get_node_ids()]

    @property
    def seconds(self) -> float:
        return self.clock.now - BEGIN

    def push_messages(self, messages: Iterable[Message]) -> list[str]:
        assert isinstance(messages, list) and messages
        ids = []
        for message in messages:
            assert message.metadata.message_type == MessageType.QUERY
            node = message.metadata.dst_node_id
            self.asked.append(node)
            message.metadata.__dict__["_message_id"] = f"q{len(self.asked)}"
            if node in self.unknown:
                continue
            ids.append(message.metadata.message_id)
            if node in self.silent or node in self.answers:
                self._open[node] = message
            else:
                self._replies.append(self._answer(node, message))
        return ids

    def pull_messages(self, message_ids: Iterable[str]) -> list[Message]:
        for node in [n for n, due in self.answers.items() if due <= self.seconds]:
            del self.answers[node]
            self.answer(node)
        ids = list(message_ids)
        found = [r for r in self._replies if r.metadata.reply_to_message_id in ids]
        self._replies = [r for r in self._replies if r not in found]
        return found

    def answer(self, node: int) -> None:
        """Let a silent node answer the last question it was asked."""
        self._replies.append(self._answer(node, self._open[node]))

    def _answer(self, node: int, message: Message) -> Message:
        if node in self.errors:
            return Message(Error(self.errors[node], "no luck"), reply_to=message)
        classes = ("a", "c") if node in self.odd else ("a", "b")
        moments = Moments(2, np.ones(1), np.full(1, 2.0))
        mine = Introduction(self.clients[node], VERSION, classes, (1,), Facts(2), moments)
        return Message(RecordDict({handshake.HANDSHAKE: mine.record()}), reply_to=message)
