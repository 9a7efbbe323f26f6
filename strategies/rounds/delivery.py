"""Delivery: messages go out, replies are awaited with a deadline, and who fails is counted.

Flower's own wait looks every 3 s, has no idea of clients, and knows no second try. Here a reply is
noticed within 0.2 s; a message whose node went away is sent again as soon as the node is back; a
reply that comes after its round is counted as late and never used.
"""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from flwr.app import Message
from flwr.common.constant import ErrorCode
from flwr.serverapp import Grid

log = logging.getLogger("fedsub")

POLL_SECONDS = 0.2
#: How often the link is asked who is connected, while somebody is awaited.
PRESENCE_SECONDS = 1.0
#: What is said when a message, its node or the process that worked on it went missing; the device
#: itself said nothing.
LOST = {
    ErrorCode.MESSAGE_UNAVAILABLE,
    ErrorCode.REPLY_MESSAGE_UNAVAILABLE,
    ErrorCode.NODE_UNAVAILABLE,
    ErrorCode.CLIENT_APP_CRASHED,
}
#: How often a device's app may crash on one message: one that always does must not go on all round.
CRASHES = 3


class Delivery:
    """What one server sends and awaits.

    Parameters
    ----------
    poll : float
        Seconds between two looks for replies.
    """

    def __init__(self, poll: float = POLL_SECONDS) -> None:
        self.poll = poll
        #: Of the current round, by client: replies after the deadline, messages sent again, and
        #: messages never answered.
        self.late: Counter[str] = Counter()
        self.resent: Counter[str] = Counter()
        self.missing: Counter[str] = Counter()
        self._overdue: dict[str, str] = {}
        self._clients: dict[str, str] = {}

    def exchange(
        self,
        grid: Grid,
        asked: Sequence[tuple[str, Message]],
        timeout: float,
        nodes: Mapping[str, int],
    ) -> Iterator[Message]:
        """Send each client its message; yield the replies as they come (:meth:`client_of`).

        Ends when everybody has replied or after `timeout` seconds. An error reply is yielded like
        any other, but not one that says that the message or its node was lost: that message is
        sent again while there is time, once the client's node (`nodes`) is connected; to an app
        that crashes on it, :data:`CRASHES` times.
        """
        self._clients = {}
        awaited = self._send(grid, dict(asked), nodes)
        pushed = {client for client, _ in awaited.values()}
        stranded = {client: message for client, message in asked if client not in pushed}
        # From now on: an engine in this process works while messages are pushed.
        deadline = time.monotonic() + timeout
        next_look = time.monotonic() + PRESENCE_SECONDS
        crashes: Counter[str] = Counter()
        while True:
            for client, message, reply in self._pull(grid, awaited):
                crashed = reply.has_error() and reply.error.code == ErrorCode.CLIENT_APP_CRASHED
                given_up = crashed and crashes[client] == CRASHES
                if reply.has_error() and reply.error.code in LOST and not given_up:
                    log.warning("client %s: %s", client, reply.error.reason)
                    stranded[client] = message
                    crashes[client] += crashed
                else:
                    yield reply
            left = deadline - time.monotonic()
            if not (awaited or stranded) or left <= 0:
                break
            time.sleep(min(self.poll, left))
            if stranded and next_look <= time.monotonic() < deadline:
                sent = self._send(grid, self._connected(grid, stranded, nodes), nodes)
                for client, _ in sent.values():
                    del stranded[client]
                awaited |= sent
                next_look = time.monotonic() + PRESENCE_SECONDS
        for identity, (client, _) in awaited.items():
            self._overdue[identity] = client
        self.missing.update({client for client, _ in awaited.values()} | stranded.keys())

    def client_of(self, reply: Message) -> str:
        """Return whose message `reply` answers, "?" if it is none of the last exchange.

        By message, not by node: an error reply of Flower's own names no node of ours.
        """
        return self._clients.get(reply.metadata.reply_to_message_id, "?")

    def counts(self) -> dict[str, Counter[str]]:
        """Return the counts since the last call, by what they count, and start anew."""
        counted = {
            "late_replies": self.late,
            "messages_resent": self.resent,
            "missing_replies": self.missing,
        }
        self.late, self.resent, self.missing = Counter(), Counter(), Counter()
        return counted

    def _send(
        self, grid: Grid, messages: Mapping[str, Message], nodes: Mapping[str, int]
    ) -> dict[str, tuple[str, Message]]:
        """Send the messages; return client and message by the id under which replies come."""
        if not messages:
            return {}
        fresh = [
            Message(
                message.content,
                nodes[client],
                message.metadata.message_type,
                ttl=message.metadata.ttl,
                group_id=message.metadata.group_id,
            )
            for client, message in messages.items()
        ]
        # A list: Flower's link refuses generators. For a message that it could not take, it returns
        # no id, or nothing at all and the list is shorter; the id also stands in the message.
        taken = set(grid.push_messages(fresh))
        sent = {
            one.metadata.message_id: item
            for one, item in zip(fresh, messages.items(), strict=True)
            if one.metadata.message_id in taken
        }
        before = set(self._clients.values())
        self.resent.update(client for client, _ in sent.values() if client in before)
        self._clients |= {identity: client for identity, (client, _) in sent.items()}
        return sent

    def _pull(
        self, grid: Grid, awaited: dict[str, tuple[str, Message]]
    ) -> list[tuple[str, Message, Message]]:
        """Return client, message and reply for those that have come; they are awaited no more.

        Replies to messages of earlier exchanges are counted.
        """
        found = []
        for reply in grid.pull_messages([*awaited, *self._overdue]):
            identity = reply.metadata.reply_to_message_id
            if identity in awaited:
                found.append((*awaited.pop(identity), reply))
            elif (client := self._overdue.pop(identity, None)) and not reply.has_error():
                self.late[client] += 1
                log.warning("client %s: a reply came after its round had ended; not used", client)
        return found

    def _connected(
        self, grid: Grid, stranded: Mapping[str, Message], nodes: Mapping[str, int]
    ) -> dict[str, Message]:
        there = set(grid.get_node_ids())
        return {client: m for client, m in stranded.items() if nodes.get(client) in there}
