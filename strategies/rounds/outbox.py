"""The outbox of one exchange: which messages are on their way, and which were lost on it."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterator, Mapping

from flwr.app import Error, Message

from fedsub_core.errors import cut
from fedsub_core.flower.messages import ErrorCode, stamp_answered
from fedsub_core.wire.in_process_message import InProcessMessage
from strategies.rounds.identity import NodeKey
from strategies.rounds.link import Fault, Link

log = logging.getLogger("fedsub")

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


class Outbox:
    """The messages of one exchange.

    Parameters
    ----------
    link : that they go by.
    nodes : of each client.
    messages : one for each client, none of them sent yet.
    resent : by client, how many messages were sent again; counted on.
    """

    def __init__(
        self,
        link: Link,
        nodes: Mapping[str, int],
        messages: Mapping[str, Message],
        resent: Counter[str],
    ) -> None:
        self.link, self.nodes, self.resent = link, nodes, resent
        #: Messages that are to be sent, by client; and those on their way, by their ids.
        self.stranded = dict(messages)
        self.awaited: dict[str, tuple[str, Message]] = {}
        #: Clients whose node is offline, for whom the message sent again waits at the link; and
        #: those whose node is registered no more.
        self.offline: set[str] = set()
        self.unregistered: frozenset[str] = frozenset()
        #: Whose every message was, by its id.
        self.clients: dict[str, str] = {}
        self._failed: Counter[str] = Counter()
        self._lost: Counter[str] = Counter()
        #: By client: its newest message, and when its node was let in, as of the last look: the
        #: first is from before the messages, for a node can be back within a second.
        self._newest: dict[str, str] = {}
        there = link.there
        known = {client: there.get(nodes[client]) for client in messages}
        self._activated = {c: key.activated for c, key in known.items() if key is not None}

    @property
    def waited_for(self) -> set[str]:
        """The clients who have not answered."""
        return {client for client, _ in self.awaited.values()} | self.stranded.keys()

    def send(self) -> list[Message]:
        """Send the messages; return an error for each client whose node lets none through."""
        return self._send(dict(self.stranded), self.stranded)

    def send_again(self) -> Iterator[Message]:
        """Send again what was lost to nodes that are there, or that were let in anew.

        Yields errors as :meth:`send` returns them.
        """
        there = self.link.nodes()
        waiting = self.offline | self.stranded.keys()
        back = {client for client in waiting if self.nodes.get(client) in there}
        self._activated |= {client: there[self.nodes[client]].activated for client in back}
        self.offline -= back
        lost = {c: m for c, m in self.stranded.items() if c in back}
        yield from self._send(lost, self.stranded)
        self._send_offline(there)
        again = self._reactivated(there)
        self._send(again, dict(again))  # the earlier message is still on its way

    def take(self, identity: str, came: Message | Fault) -> tuple[str, Message, Message] | None:
        """Return client, message and reply where a message's answer came; it is awaited no more.

        None: the same message was sent again, and may still be answered.
        """
        client, message = self.awaited.pop(identity)
        reply = came if isinstance(came, Message) else _error(message, came)
        # Whatever it says itself, it is the answer to what it was pulled for.
        stamp_answered(reply, identity)
        if reply.has_error() and self._newest[client] != identity:
            return None
        if self.resent[client]:
            for other in [i for i, (whose, _) in self.awaited.items() if whose == client]:
                del self.awaited[other]
        return client, message, reply

    def was_lost(self, client: str, message: Message, reply: Message) -> bool:
        """Whether a reply says that its message was lost, which is then sent again."""
        crashed = reply.has_error() and reply.error.code == ErrorCode.CLIENT_APP_CRASHED
        worn = crashed and self._failed[client] == CRASHES
        given_up = worn or self._lost[client] == LOSSES
        if reply.has_error() and reply.error.code in LOST and not given_up:
            log.warning("client %s: %s", client, cut(reply.error.reason))
            self.stranded[client] = message
            self._failed[client] += crashed
            self._lost[client] += not crashed
            return True
        return False

    def _send(self, messages: Mapping[str, Message], stranded: dict[str, Message]) -> list[Message]:
        """Send messages; those on their way are awaited by their ids, and `stranded` no more.

        Returns an error for each whose node has let none through too often.
        """
        fresh = {c: _fresh(message, self.nodes[c]) for c, message in messages.items()}
        before, given_up = set(self.clients.values()), []
        faults = self.link.push(list(fresh.values()))
        for (client, message), fault in zip(fresh.items(), faults, strict=True):
            identity = message.metadata.message_id
            if fault is None:
                if client in before:
                    self.resent[client] += 1
                self.clients[identity] = client
                self._newest[client] = identity
                self.awaited[identity] = client, stranded.pop(client)
            elif not fault.away:
                log.warning("client %s: the message to it: %s", client, fault.reason)
                self._failed[client] += 1
                if self._failed[client] > CRASHES:
                    del stranded[client]
                    self.clients[identity] = client
                    given_up.append(_error(message, fault))
        return given_up

    def _send_offline(self, there: Mapping[int, NodeKey]) -> None:
        """Send again what nodes that are offline have lost; drop who is registered no more.

        The link keeps a message to a node that is offline, and takes none to one that is not
        registered. Nothing else tells the two apart.
        """
        offline = {c: m for c, m in self.stranded.items() if self.nodes.get(c) not in there}
        self._send(offline, self.stranded)
        self.offline |= offline.keys() - self.stranded.keys()
        for client in offline.keys() & self.stranded.keys():
            del self.stranded[client]
            self.unregistered |= {client}
            log.warning("client %s: its node is registered no more; it is not waited for", client)

    def _reactivated(self, there: Mapping[int, NodeKey]) -> dict[str, Message]:
        """Return the messages, by client, of those whose node was let in since the last look."""
        messages = {}
        for client, message in self.awaited.values():
            if (key := there.get(self.nodes[client])) is None:
                continue
            now = key.activated
            if self._activated.setdefault(client, now) != now and self._lost[client] < LOSSES:
                messages[client] = message
                self._lost[client] += 1
                log.warning("client %s: its node was let in anew; it is asked again", client)
            self._activated[client] = now
        return messages


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
