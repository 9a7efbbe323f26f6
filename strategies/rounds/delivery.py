"""Delivery: messages go out, replies are awaited with a deadline, and who fails is counted.

Flower's own wait looks every 3 s, has no idea of clients, and knows no second try. Here a reply is
noticed within 0.2 s. A message whose node is offline is sent again, and is there when the node is
back. A client whose node is registered no more is not waited for. A reply that comes after its
round is counted as late, and used only where late uploads are.
"""

from __future__ import annotations

import logging
import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence

from flwr.app import Message, MessageType

from fedsub_core.looks import lateness
from strategies.rounds.link import Link
from strategies.rounds.outbox import Outbox
from strategies.rounds.overdue import OverdueMessages
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
#: Share of a client's slowness that is left after a quicker answer.
REMEMBERED = 0.9


class Delivery:
    """The messages that one server sends, and the replies that it awaits.

    Parameters
    ----------
    poll : float
        Seconds between two looks for replies.
    quorum : float
        Share of the clients asked without whose usable answers a round is of no use.
    """

    def __init__(self, poll: float = POLL_SECONDS, quorum: float = 0.0) -> None:
        self.poll, self.quorum = poll, quorum
        #: Earlier messages without an answer in time, and whether an exchange goes on for these.
        self.overdue, self.asynchronous = OverdueMessages(), False
        #: Usable answers of the last exchange, and who was not waited for as there were enough.
        self.usable, self.spared = 0, frozenset[str]()
        #: Of the current round, by client: replies after the deadline, messages sent again, and
        #: messages never answered.
        self.late: Counter[str] = Counter()
        self.resent: Counter[str] = Counter()
        self.missing: Counter[str] = Counter()
        #: Answers, by client, that were used and kept everybody waiting.
        self.slow: Counter[str] = Counter()
        #: Of the last exchange: who has not answered, how fast the others have, whose node is gone.
        self.silent: frozenset[str] = frozenset()
        self.pace = Pace(0.0)
        self.unregistered: frozenset[str] = frozenset()
        #: By kind of message and client: the time that an answer took, over what most took.
        self._slowness: defaultdict[str, dict[str, float]] = defaultdict(dict)
        self._waited = self._slowest = 0.0
        #: When each client answered, and for how long it had been waited for: the time in which
        #: others' answers were taken and read is not the client's.
        self._took: dict[str, tuple[float, float]] = {}
        #: When each client answered, at the earliest; it looks less and less often since. All have
        #: answered the handshake, shortly before the first exchange began.
        self._served: dict[str, float] = {}
        self._begun: float | None = None
        #: Of the last exchange: whose every message was, by its id.
        self._clients: Mapping[str, str] = {}

    def exchange(
        self,
        link: Link,
        asked: Iterable[tuple[str, Message]],
        timeout: float,
        nodes: Mapping[str, int],
        most: int = 0,
        enough: int = 0,
    ) -> Iterator[Message]:
        """Send each client its message; yield the replies as they come (:meth:`client_of`).

        Ends when everybody has replied, after `timeout` seconds, or at the deadline that the first
        `most` usable answers set (:class:`Pace`, :meth:`note_usable`). An error reply is yielded
        like any other, but not one that says that the message or its node was lost: that message
        is sent again while there is time, as often as :class:`Outbox` allows. So is one whose node
        was let in anew meanwhile; then the first of both replies counts. A client whose node
        (`nodes`) is offline is waited for no longer than :meth:`Pace.limit_without` says, and one
        whose node is registered no more not at all. A reply that cannot be read is yielded as an
        error.

        With `enough` it ends once so many answers are usable, late ones too
        (:meth:`note_usable`, :attr:`usable`): the others are late, and not missing.

        An engine of this process is given some messages after others (:meth:`Link.portions`).
        """
        silent, unregistered = frozenset[str](), frozenset[str]()
        self.usable = 0
        self.overdue.begin()
        for some in link.portions(asked):
            yield from self._exchange(link, some, timeout, nodes, most, enough)
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
        enough: int,
    ) -> Iterator[Message]:
        box, clock = Outbox(link, nodes, dict(asked), self.resent), link.clock
        self._clients, self._took = box.clients, {}
        yield from box.send()
        # From now on: an engine in this process works while messages are pushed.
        since = clock.now
        next_look = next_check = since + PRESENCE_SECONDS
        self._slowest = 0.0
        self.pace = Pace(timeout, len(asked), most, math.ceil(self.quorum * len(asked)))
        if most:
            begun = self._begun = since if self._begun is None else self._begun
            idle = {c: since - self._served.get(c, begun) for c, _ in asked}
            self.pace.late = {client: lateness(seconds) for client, seconds in idle.items()}
        kind = asked[0][1].metadata.message_type if asked else MessageType.TRAIN
        slowness, busy = self._slowness[kind], 0.0
        while True:
            looked = clock.now
            pulled = self._pull(box, kind == MessageType.TRAIN)
            # With many devices a look takes a while: no more than half of the time is spent on it.
            pause = max(self.poll, clock.now - looked)
            for client, message, reply in pulled:
                if message is None:
                    yield reply
                elif not box.was_lost(client, message, reply):
                    self._took[client] = clock.now - since, looked - since - busy
                    self._served[client] = looked - busy
                    yield reply
            busy += clock.now - looked if pulled else 0.0
            left = box.waited_for
            if looked - since - busy >= self.pace.limit_without(len(box.offline)):
                left -= box.offline
            deadline = since + min(timeout, self.pace.deadline(left, slowness) + busy)
            full = 0 < enough <= self.usable
            going = left or (self.asynchronous and self.overdue)
            # To read many replies takes a while, too: what came meanwhile is looked at once more.
            if full or not going or looked >= deadline:
                break
            clock.wait(pause, deadline)
            pause_over = next_look if box.stranded or box.offline else next_check
            if pause_over <= clock.now < deadline:
                yield from box.send_again()
                now = clock.now
                next_look, next_check = now + PRESENCE_SECONDS, now + REACTIVATED_SECONDS
        self.spared = frozenset(box.waited_for) if full or self.asynchronous else frozenset()
        self._close(kind, since, timeout, box)

    def _close(self, kind: str, since: float, timeout: float, box: Outbox) -> None:
        """Note the clients that did not answer messages sent at `since`, or were slow."""
        self.overdue.add(kind, since, timeout, box, self.pace)
        self._waited = box.link.clock.now - since
        self.unregistered = box.unregistered
        self.silent = box.unregistered | box.waited_for
        self.missing.update(self.silent - self.spared)
        self.slow.update(self.pace.slow)
        for client, over in self.pace.slowness().items():
            self._note_slowness(kind, client, over)
        for client in sorted(self.pace.slow):
            seconds, limit = self.pace.took[client], self.pace.limit
            log.warning("client %s: slow: took %.0f s, expected %.0f", client, seconds, limit)

    def note_usable(self, client: str, late: bool = False) -> None:
        """Note that a client's reply of the last exchange, or a late one, can be used."""
        self.usable += self.asynchronous or not late
        if not late:
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
        if (late := self.overdue.answered(reply)) is not None:
            return late.client
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

    def _pull(self, box: Outbox, uploads: bool) -> list[tuple[str, Message | None, Message]]:
        """Return client, message and reply for those that have come; they are awaited no more.

        Replies to earlier messages, asked for if `uploads` are of use now, have no message here.
        """
        expired = [one.client for one in self.overdue.expired(box.link.clock.now)]
        self.missing.update(expired if self.asynchronous else [])
        # Asked for the answer of a node that is offline, the link says so and forgets the message.
        asked = [i for i, (client, _) in box.awaited.items() if client not in box.offline]
        replies = list[tuple[str, Message | None, Message]]()
        for identity, came in box.link.pull([*asked, *self.overdue.ids(box, uploads)]).items():
            if identity in box.awaited:
                if (taken := box.take(identity, came)) is not None:
                    replies.append(taken)
            elif (late := self.overdue.take(identity, came)) is not None:
                client = late.client
                self.late[client] += 1
                slowness = late.pace.slowness_of(box.link.clock.now - late.sent)
                self._note_slowness(late.kind, client, slowness)
                if isinstance(came, Message) and self.overdue.answered(came) is not None:
                    replies.append((client, None, came))
                    continue
                log.warning("client %s: a reply came after its round had ended; not used", client)
        return replies
