"""Departures: clients whose key was unregistered, and people whom the run was told to forget.

A run hears only of nodes that are connected. Whether another one is away for a while or was
unregistered shows when it is sent something: a SuperLink takes no message to the latter.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Collection, Container, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from flwr.app import Message, MessageType, RecordDict

from fedsub_core.wire.leaving import LEFT, Left
from strategies.rounds.link import NOT_TAKEN, Link

log = logging.getLogger("fedsub")

#: Seconds between two looks at those who are away.
LOOK_SECONDS = 60.0
#: Seconds for which a message to one of them counts: a device that comes back later never sees it.
TTL_SECONDS = 1.0


class Forgotten(Protocol):
    """The people whom a run was told to forget: a set of names, which cannot be listed."""

    def __contains__(self, client: object, /) -> bool: ...

    def __len__(self) -> int: ...


@dataclass
class Departures:
    """The clients who will not come back.

    Parameters
    ----------
    nodes : the last node id of everybody who was ever admitted, also to an earlier process.
    retired : of these, whose key is registered no more.
    forgotten : whom the run was told to forget.
    leaving : whose device says that the person leaves, and whom the run has not forgotten yet.
    left : what a forgotten person is told that was deleted; None: nothing.
    members : who takes part, of all whose devices the SuperLink has; None: everybody.
    """

    nodes: dict[str, int] = field(default_factory=dict)
    retired: set[str] = field(default_factory=set)
    forgotten: Forgotten = frozenset()
    leaving: set[str] = field(default_factory=set)
    left: Callable[[str], Left] | None = None
    members: frozenset[str] | None = None
    _next: float = -math.inf
    _sent: set[str] = field(default_factory=set)

    def recall(self, nodes: Mapping[str, int], retired: Collection[str]) -> None:
        """Take over the nodes and departures that an earlier process of the run knew."""
        self.nodes = {client: n for client, n in nodes.items() if client not in self.forgotten}
        self.retired = self.nodes.keys() & set(retired)

    def elsewhere(self, client: str) -> bool:
        """Whether a client, if it is known, takes part in another federation alone."""
        return bool(client) and self.members is not None and client not in self.members

    def refusal(self, client: str) -> str:
        """Return why a client takes no part, for good; "" if it may."""
        if self.elsewhere(client):
            return "it is no member of this federation"
        forgotten = client in self.forgotten
        return "it is of a person whom this run was told to forget" if forgotten else ""

    def least(self, demanded: int) -> int:
        """Return the number of clients that a round needs, of the `demanded` number.

        Where no more ever came, those who departed are no longer needed.
        """
        known = len(self.nodes) + len(self.forgotten)
        left = known - len(self.retired) - len(self.forgotten)
        return demanded if known < demanded else max(1, min(demanded, left))

    def admit(self, client: str, node: int) -> None:
        """Note the node of a client who is here, whatever was known before."""
        self.nodes[client] = node
        self.retired.discard(client)

    def leave(self, link: Link, client: str, node: int) -> None:
        """Note that a person leaves; tell the device once the run has forgotten the person."""
        if client not in self.forgotten:
            self.leaving.add(client)
        elif self.left is not None:
            content = RecordDict({LEFT: self.left(client).record()})
            link.push([Message(content, node, MessageType.QUERY, group_id="0")])

    def look(self, link: Link, connected: Container[int]) -> None:
        """Find, once in LOOK_SECONDS, the absent clients whose key was unregistered."""
        if link.in_process or link.simulates or link.clock.now < self._next:
            return
        self._next = link.clock.now + LOOK_SECONDS
        self._sent -= link.pull(self._sent).keys()  # so that the link forgets them, too
        away = [
            client
            for client, node in sorted(self.nodes.items())
            if node not in connected and client not in self.retired
        ]
        asked = [
            Message(RecordDict(), self.nodes[client], MessageType.QUERY, ttl=TTL_SECONDS)
            for client in away
        ]
        for client, message, fault in zip(away, asked, link.push(asked), strict=True):
            if fault is None:
                self._sent.add(message.metadata.message_id)
            elif fault is NOT_TAKEN:
                self.retired.add(client)
                log.warning("client %s: its key was unregistered: it takes part no more", client)
