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

from flwr.app import Error, Message
from flwr.common.constant import ErrorCode

from fedsub_core.errors import cut
from strategies.rounds.link import Fault, Link

log = logging.getLogger("fedsub")

POLL_SECONDS = 0.2
#: How often the link is asked who is connected, while somebody is awaited.
PRESENCE_SECONDS = 1.0
#: A second exchange of a round may last as long, whatever time the first has taken.
LEAST_SECONDS = 10.0
#: What is said when a message, its node or the process that worked on it went missing; the device
#: itself said nothing.
LOST = {
    ErrorCode.MESSAGE_UNAVAILABLE,
    ErrorCode.REPLY_MESSAGE_UNAVAILABLE,
    ErrorCode.NODE_UNAVAILABLE,
    ErrorCode.CLIENT_APP_CRASHED,
}
#: How often a device's app may crash on one message, or its node not let it through: one that
#: always does must not go on all round.
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
        #: Who has not answered in the last exchange.
        self.silent: frozenset[str] = frozenset()
        self._waited = self._slowest = 0.0
        self._overdue: dict[str, str] = {}
        self._clients: dict[str, str] = {}
        self._failed: Counter[str] = Counter()

    def exchange(
        self,
        link: Link,
        asked: Sequence[tuple[str, Message]],
        timeout: float,
        nodes: Mapping[str, int],
    ) -> Iterator[Message]:
        """Send each client its message; yield the replies as they come (:meth:`client_of`).

        Ends when everybody has replied or after `timeout` seconds. An error reply is yielded like
        any other, but not one that says that the message or its node was lost: that message is
        sent again while there is time, once the client's node (`nodes`) is connected; to an app
        that crashes on it, :data:`CRASHES` times. A reply that cannot be read is yielded as an
        error.
        """
        self._clients, self._failed = {}, Counter()
        awaited: dict[str, tuple[str, Message]] = {}
        stranded = dict(asked)
        yield from self._send(link, stranded, awaited, stranded, nodes)
        # From now on: an engine in this process works while messages are pushed.
        since = time.monotonic()
        deadline, next_look = since + timeout, since + PRESENCE_SECONDS
        self._slowest = 0.0
        while True:
            looked = time.monotonic()
            pulled = self._pull(link, awaited)
            # With many devices a look takes a while: no more than half of the time is spent on it.
            pause = max(self.poll, time.monotonic() - looked)
            for client, message, reply in pulled:
                crashed = reply.has_error() and reply.error.code == ErrorCode.CLIENT_APP_CRASHED
                given_up = crashed and self._failed[client] == CRASHES
                if reply.has_error() and reply.error.code in LOST and not given_up:
                    log.warning("client %s: %s", client, cut(reply.error.reason))
                    stranded[client] = message
                    self._failed[client] += crashed
                else:
                    self._slowest = time.monotonic() - since
                    yield reply
            left = deadline - time.monotonic()
            if not (awaited or stranded) or left <= 0:
                break
            time.sleep(min(pause, left))
            if stranded and next_look <= time.monotonic() < deadline:
                there = self._connected(link, stranded, nodes)
                yield from self._send(link, there, awaited, stranded, nodes)
                next_look = time.monotonic() + PRESENCE_SECONDS
        for identity, (client, _) in awaited.items():
            self._overdue[identity] = client
        self._waited = time.monotonic() - since
        self.silent = frozenset({client for client, _ in awaited.values()} | stranded.keys())
        self.missing.update(self.silent)

    def time_left(self, timeout: float) -> float:
        """Return how long another exchange of a round may last of whose `timeout` one has taken.

        A round waits for its deadline once; whoever answered so far gets at least twice the time
        that the slowest of them took.
        """
        return min(timeout, max(timeout - self._waited, 2 * self._slowest, LEAST_SECONDS))

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
        self,
        link: Link,
        messages: Mapping[str, Message],
        awaited: dict[str, tuple[str, Message]],
        stranded: dict[str, Message],
        nodes: Mapping[str, int],
    ) -> list[Message]:
        """Send messages; move those on their way from `stranded` to `awaited`, by their ids.

        Returns an error for each whose node has let none through too often.
        """
        fresh = {
            client: Message(
                message.content,
                nodes[client],
                message.metadata.message_type,
                ttl=message.metadata.ttl,
                group_id=message.metadata.group_id,
            )
            for client, message in messages.items()
        }
        before, given_up = set(self._clients.values()), []
        faults = link.push(list(fresh.values()))
        for (client, message), fault in zip(fresh.items(), faults, strict=True):
            identity = message.metadata.message_id
            if fault is None:
                if client in before:
                    self.resent[client] += 1
                self._clients[identity] = client
                awaited[identity] = client, stranded.pop(client)
            elif not fault.away:
                log.warning("client %s: the message to it: %s", client, fault.reason)
                self._failed[client] += 1
                if self._failed[client] > CRASHES:
                    del stranded[client]
                    self._clients[identity] = client
                    given_up.append(_error(message, fault))
        return given_up

    def _pull(
        self, link: Link, awaited: dict[str, tuple[str, Message]]
    ) -> list[tuple[str, Message, Message]]:
        """Return client, message and reply for those that have come; they are awaited no more.

        Replies to messages of earlier exchanges are counted.
        """
        found = []
        for identity, came in link.pull([*awaited, *self._overdue]).items():
            if identity in awaited:
                client, message = awaited.pop(identity)
                reply = came if isinstance(came, Message) else _error(message, came)
                # Whatever it says itself, it is the answer to what it was pulled for.
                reply.metadata.__dict__["_reply_to_message_id"] = identity
                found.append((client, message, reply))
            elif (
                (late := self._overdue.pop(identity, None))
                and isinstance(came, Message)
                and not came.has_error()
            ):
                self.late[late] += 1
                log.warning("client %s: a reply came after its round had ended; not used", late)
        return found

    def _connected(
        self, link: Link, stranded: Mapping[str, Message], nodes: Mapping[str, int]
    ) -> dict[str, Message]:
        there = link.node_ids()
        return {client: m for client, m in stranded.items() if nodes.get(client) in there}


def _error(message: Message, fault: Fault) -> Message:
    return Message(Error(ErrorCode.UNKNOWN, fault.reason), reply_to=message)
