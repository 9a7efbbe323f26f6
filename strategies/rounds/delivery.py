"""Delivery: messages go out, replies are awaited with a deadline, and who fails is counted.

Flower's own wait looks every 3 s, has no idea of clients, and knows no second try. Here a reply is
noticed within 0.2 s. A message whose node is offline is sent again, and is there when the node is
back. A client whose node is registered no more is not waited for. A reply that comes after its
round is counted as late and never used.
"""

from __future__ import annotations

import logging
import math
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence

from flwr.app import Error, Message

from fedsub_core.errors import cut
from fedsub_core.flower.messages import ErrorCode, stamp_answered
from fedsub_core.wire.in_process_message import InProcessMessage
from strategies.rounds.identity import NodeKey
from strategies.rounds.link import Fault, Link
from strategies.rounds.pace import Pace

log = logging.getLogger("fedsub")

POLL_SECONDS = 0.2
#: How often the link is asked who is connected, while messages are to be sent again.
PRESENCE_SECONDS = 1.0
#: And how often, while somebody is awaited: a node that was let in anew may have lost its message
#: without anybody's noticing.
REACTIVATED_SECONDS = 10.0
#: A second exchange of a round may last as long, whatever time the first has taken.
LEAST_SECONDS = 60.0
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
#: How often a message is sent again of which it is said that it, its reply or its node was lost: a
#: device can say so, too, as soon as it comes.
LOSSES = 10
#: Share of a client's slowness that is left after a quicker answer.
REMEMBERED = 0.9


class Delivery:
    """What one server sends and awaits.

    Parameters
    ----------
    poll : float
        Seconds between two looks for replies.
    quorum : float
        Share of the clients asked without whose usable answers a round is of no use.
    """

    def __init__(self, poll: float = POLL_SECONDS, quorum: float = 0.0) -> None:
        self.poll, self.quorum = poll, quorum
        #: Of the current round, by client: replies after the deadline, messages sent again, and
        #: messages never answered.
        self.late: Counter[str] = Counter()
        self.resent: Counter[str] = Counter()
        self.missing: Counter[str] = Counter()
        #: Answers, by client, that were used and kept everybody waiting.
        self.slow: Counter[str] = Counter()
        #: Of the last exchange: who has not answered, and how fast the others have.
        self.silent: frozenset[str] = frozenset()
        self.pace = Pace(0.0)
        #: Of the last exchange: clients whose node is registered no more.
        self.unregistered: frozenset[str] = frozenset()
        #: By kind of message and client: the time that an answer took, over what most took.
        self._slowness: defaultdict[str, dict[str, float]] = defaultdict(dict)
        #: Clients whose node is offline; the message sent again waits for it at the link.
        self._offline: set[str] = set()
        self._waited = self._slowest = 0.0
        #: When each client answered, and for how long it had been waited for: the time in which
        #: others' answers were taken and read is not the client's.
        self._took: dict[str, tuple[float, float]] = {}
        #: By message without an answer in time: the message, its client, when it was sent, and the
        #: pace then.
        self._overdue: dict[str, tuple[str, str, float, Pace]] = {}
        self._clients: dict[str, str] = {}
        self._failed: Counter[str] = Counter()
        self._lost: Counter[str] = Counter()
        #: By client: its newest message, and when its node was let in, as of the last look.
        self._newest: dict[str, str] = {}
        self._activated: dict[str, str] = {}

    def exchange(
        self,
        link: Link,
        asked: Iterable[tuple[str, Message]],
        timeout: float,
        nodes: Mapping[str, int],
        most: int = 0,
    ) -> Iterator[Message]:
        """Send each client its message; yield the replies as they come (:meth:`client_of`).

        Ends when everybody has replied, after `timeout` seconds, or at the deadline that the first
        `most` usable answers set (:class:`Pace`, :meth:`note_usable`). An error reply is yielded
        like any other, but not one that says that the message or its node was lost: that message
        is sent again while there is time, up to :data:`LOSSES` times; to an app that crashes on
        it, :data:`CRASHES` times. So is one whose node was let in anew meanwhile; then the first
        of both replies counts. A client whose node (`nodes`) is offline is waited for no longer
        than :meth:`Pace.limit_without` says, and one whose node is registered no more not at all.
        A reply that cannot be read is yielded as an error.

        An engine of this process is given some messages after others (:meth:`Link.portions`).
        """
        silent, unregistered = frozenset[str](), frozenset[str]()
        for some in link.portions(asked):
            yield from self._exchange(link, some, timeout, nodes, most)
            silent |= self.silent
            unregistered |= self.unregistered
        self.silent, self.unregistered = silent, unregistered

    def _exchange(
        self,
        link: Link,
        asked: Sequence[tuple[str, Message]],
        timeout: float,
        nodes: Mapping[str, int],
        most: int,
    ) -> Iterator[Message]:
        self._clients, self._failed, self._lost = {}, Counter(), Counter()
        self._newest, self._activated, self._took = {}, {}, {}
        self._offline, self.unregistered = set(), frozenset()
        awaited, stranded = dict[str, tuple[str, Message]](), dict(asked)
        yield from self._send(link, stranded, awaited, stranded, nodes)
        # From now on: an engine in this process works while messages are pushed.
        since = time.monotonic()
        next_look = next_check = since + PRESENCE_SECONDS
        self._slowest = 0.0
        self.pace = Pace(timeout, len(asked), most, math.ceil(self.quorum * len(asked)))
        kind = asked[0][1].metadata.message_type if asked else ""
        slowness, busy = self._slowness[kind], 0.0
        while True:
            looked = time.monotonic()
            pulled = self._pull(link, awaited)
            # With many devices a look takes a while: no more than half of the time is spent on it.
            pause = max(self.poll, time.monotonic() - looked)
            for client, message, reply in pulled:
                crashed = reply.has_error() and reply.error.code == ErrorCode.CLIENT_APP_CRASHED
                worn = crashed and self._failed[client] == CRASHES
                given_up = worn or self._lost[client] == LOSSES
                if reply.has_error() and reply.error.code in LOST and not given_up:
                    log.warning("client %s: %s", client, cut(reply.error.reason))
                    stranded[client] = message
                    self._failed[client] += crashed
                    self._lost[client] += not crashed
                else:
                    self._took[client] = time.monotonic() - since, looked - since - busy
                    yield reply
            busy += time.monotonic() - looked if pulled else 0.0
            left = {client for client, _ in awaited.values()} | stranded.keys()
            if looked - since - busy >= self.pace.limit_without(len(self._offline)):
                left -= self._offline
            deadline = since + min(timeout, self.pace.deadline(left, slowness) + busy)
            # To read many replies takes a while, too: what came meanwhile is looked at once more.
            if not left or looked >= deadline:
                break
            time.sleep(max(min(pause, deadline - time.monotonic()), 0))
            pause_over = next_look if stranded or self._offline else next_check
            if pause_over <= time.monotonic() < deadline:
                there = link.nodes()
                back = {c for c in self._offline | stranded.keys() if nodes.get(c) in there}
                self._activated |= {c: there[nodes[c]].activated for c in back}
                self._offline -= back
                lost = {c: m for c, m in stranded.items() if c in back}
                yield from self._send(link, lost, awaited, stranded, nodes)
                self._send_offline(link, awaited, stranded, nodes, there)
                again = self._reactivated(there, awaited, nodes)
                self._send(link, again, awaited, dict(again), nodes)
                now = time.monotonic()
                next_look, next_check = now + PRESENCE_SECONDS, now + REACTIVATED_SECONDS
        self._close(kind, since, awaited, stranded)

    def _close(
        self,
        kind: str,
        since: float,
        awaited: Mapping[str, tuple[str, Message]],
        stranded: Mapping[str, Message],
    ) -> None:
        """Note who has not answered a kind of message sent at `since`, and who was slow."""
        for identity, (client, _) in awaited.items():
            self._overdue[identity] = kind, client, since, self.pace
        self._waited = time.monotonic() - since
        awaited_still = {client for client, _ in awaited.values()} | stranded.keys()
        self.silent = self.unregistered | awaited_still
        self.missing.update(self.silent)
        self.slow.update(self.pace.slow)
        for client, over in self.pace.slowness().items():
            self._note_slowness(kind, client, over)
        for client in sorted(self.pace.slow):
            seconds, limit = self.pace.took[client], self.pace.limit
            log.warning("client %s: slow: took %.0f s, expected %.0f", client, seconds, limit)

    def note_usable(self, client: str) -> None:
        """Note that a client's reply of the last exchange can be used."""
        came, self.pace.took[client] = self._took.get(client, (0.0, 0.0))
        self._slowest = max(self._slowest, came)

    @property
    def answered(self) -> frozenset[str]:
        """The clients who answered in the last exchange, usably or not."""
        return frozenset(dict(self._took))

    def time_left(self, timeout: float) -> float:
        """Return the seconds for another exchange of a round, of whose `timeout` some is used up.

        A round waits for its deadline once; whoever answered usably so far gets at least twice the
        time that the slowest of them took.
        """
        return min(timeout, max(timeout - self._waited, 2 * self._slowest, LEAST_SECONDS))

    def client_of(self, reply: Message) -> str:
        """Return the client whose message `reply` answers; "?" if it is none of the last exchange.

        By message, not by node: an error reply of Flower's own names no node of ours.
        """
        return self._clients.get(reply.metadata.reply_to_message_id, "?")

    def _note_slowness(self, kind: str, client: str, slowness: float) -> None:
        """Note the slowness of a client's answer; an earlier one fades."""
        before = self._slowness[kind].get(client, 0.0)
        self._slowness[kind][client] = max(slowness, REMEMBERED * before)

    def counts(self) -> dict[str, Counter[str]]:
        """Return the counts by client since the last call, by the metric's name, and start anew."""
        counted = {
            "late_replies": self.late,
            "messages_resent": self.resent,
            "missing_replies": self.missing,
            "slow_replies": self.slow,
        }
        self.late, self.resent = Counter(), Counter()
        self.missing, self.slow = Counter(), Counter()
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
        fresh = {client: _fresh(message, nodes[client]) for client, message in messages.items()}
        before, given_up = set(self._clients.values()), []
        faults = link.push(list(fresh.values()))
        for (client, message), fault in zip(fresh.items(), faults, strict=True):
            identity = message.metadata.message_id
            if fault is None:
                if client in before:
                    self.resent[client] += 1
                self._clients[identity] = client
                self._newest[client] = identity
                awaited[identity] = client, stranded.pop(client)
            elif not fault.away:
                log.warning("client %s: the message to it: %s", client, fault.reason)
                self._failed[client] += 1
                if self._failed[client] > CRASHES:
                    del stranded[client]
                    self._clients[identity] = client
                    given_up.append(_error(message, fault))
        return given_up

    def _send_offline(
        self,
        link: Link,
        awaited: dict[str, tuple[str, Message]],
        stranded: dict[str, Message],
        nodes: Mapping[str, int],
        there: Mapping[int, NodeKey],
    ) -> None:
        """Send again what nodes that are offline have lost; drop who is registered no more.

        The link keeps a message to a node that is offline, and takes none to one that is not
        registered. Nothing else tells the two apart.
        """
        offline = {c: m for c, m in stranded.items() if nodes.get(c) not in there}
        self._send(link, offline, awaited, stranded, nodes)
        self._offline |= offline.keys() - stranded.keys()
        for client in offline.keys() & stranded.keys():
            del stranded[client]
            self.unregistered |= {client}
            log.warning("client %s: its node is registered no more; it is not waited for", client)

    def _pull(
        self, link: Link, awaited: dict[str, tuple[str, Message]]
    ) -> list[tuple[str, Message, Message]]:
        """Return client, message and reply for those that have come; they are awaited no more.

        Replies to messages of earlier exchanges are counted.
        """
        # Asked for the answer of a node that is offline, the link says so and forgets the message.
        asked = [i for i, (client, _) in awaited.items() if client not in self._offline]
        found = []
        for identity, came in link.pull([*asked, *self._overdue]).items():
            if identity in awaited:
                client, message = awaited.pop(identity)
                reply = came if isinstance(came, Message) else _error(message, came)
                # Whatever it says itself, it is the answer to what it was pulled for.
                stamp_answered(reply, identity)
                if reply.has_error() and self._newest[client] != identity:
                    continue  # the same message was sent again, and may still be answered
                if self.resent[client]:
                    for other in [i for i, (one, _) in awaited.items() if one == client]:
                        del awaited[other]
                found.append((client, message, reply))
            elif (
                (late := self._overdue.pop(identity, None))
                and isinstance(came, Message)
                and not came.has_error()
            ):
                kind, client, sent, pace = late
                self.late[client] += 1
                self._note_slowness(kind, client, pace.slowness_of(time.monotonic() - sent))
                log.warning("client %s: a reply came after its round had ended; not used", client)
        return found

    def _reactivated(
        self,
        there: Mapping[int, NodeKey],
        awaited: Mapping[str, tuple[str, Message]],
        nodes: Mapping[str, int],
    ) -> dict[str, Message]:
        """Return the messages, by client, of those whose node was let in since the last look."""
        found = {}
        for client, message in awaited.values():
            if (key := there.get(nodes[client])) is None:
                continue
            now = key.activated
            if self._activated.setdefault(client, now) != now and self._lost[client] < LOSSES:
                found[client] = message
                self._lost[client] += 1
                log.warning("client %s: its node was let in anew; it is asked again", client)
            self._activated[client] = now
        return found


def _fresh(message: Message, node: int) -> Message:
    """Return a message that can be sent, however often this one was."""
    metadata = message.metadata
    if isinstance(message, InProcessMessage) and message.carried is not None:
        return message  # nothing is put into it on its way, and its node stays
    return Message(
        message.content, node, metadata.message_type, ttl=metadata.ttl, group_id=metadata.group_id
    )


def _error(message: Message, fault: Fault) -> Message:
    return Message(Error(ErrorCode.UNKNOWN, fault.reason), reply_to=message)
