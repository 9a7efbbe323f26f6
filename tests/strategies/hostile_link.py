"""A link as over a network, on which one node's messages do what no honest node's do."""

import threading
from collections.abc import Callable, Iterable

from flwr.app import Message
from flwr.serverapp import Grid

from .partial_grid import PartialGrid

#: What becomes of the reply to a message of the hostile node, or of the message itself.
Trick = Callable[[Message], Message | None]


class HostileLink(PartialGrid):
    """A Grid in front of another that keeps each message apart.

    Parameters
    ----------
    node : the hostile one.
    pulled : is given its replies; what it raises, the link raises.
    pushed : the same of the messages to it.
    """

    in_process = False

    def __init__(
        self, grid: Grid, node: int, pulled: Trick | None = None, pushed: Trick | None = None
    ) -> None:
        self.grid, self.node, self.pulled, self.pushed = grid, node, pulled, pushed
        self.lock = threading.Lock()
        self._to: dict[str, int] = {}

    def get_node_ids(self) -> Iterable[int]:
        return self.grid.get_node_ids()

    def push_messages(self, messages: Iterable[Message]) -> Iterable[str]:
        sent = list(messages)
        for message in sent:
            if message.metadata.dst_node_id == self.node and self.pushed is not None:
                self.pushed(message)
        with self.lock:
            ids = list(self.grid.push_messages(sent))
            self._to |= {m.metadata.message_id: m.metadata.dst_node_id for m in sent}
        return ids

    def pull_messages(self, message_ids: Iterable[str]) -> Iterable[Message]:
        ids = list(message_ids)
        with self.lock:
            found = list(self.grid.pull_messages(ids))
        passed = []
        for message in found:
            node = self._to[message.metadata.reply_to_message_id]
            hostile = node == self.node and self.pulled is not None
            passed.append(self.pulled(message) if hostile and self.pulled else message)
        return [message for message in passed if message is not None]
