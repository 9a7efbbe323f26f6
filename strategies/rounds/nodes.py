"""The node registry: every node that connects is asked who it is, and admitted or turned away.

A device is its client id. Node ids are Flower's, and change when a node registers anew.
"""

from __future__ import annotations

import logging
import math
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from flwr.app import ConfigRecord, Message, MessageType, RecordDict

from fedsub_core.errors import MessageRefused, cut
from fedsub_core.flower.messages import ErrorCode
from fedsub_core.release import behind
from fedsub_core.version import VERSION
from fedsub_core.wire import daily_hours, greeting, handshake
from fedsub_core.wire.handshake import Introduction, read_introduction
from fedsub_core.wire.leaving import LEAVE
from strategies.rounds.departures import Departures
from strategies.rounds.farewell import take_leave
from strategies.rounds.identity import Identities, NodeKey
from strategies.rounds.link import Fault, Link
from strategies.rounds.releases import log_release

log = logging.getLogger("fedsub")

#: After how many seconds a node that answered with an error is asked anew.
AGAIN_SECONDS = 30.0
#: One that does not fit: it may be repaired or upgraded under the same node id.
MISFIT_SECONDS = 600.0
#: And one that did not answer: a question to a device that crashed on it stays open for ever. Until
#: then a device may take to start its programs.
UNANSWERED_SECONDS = 900.0
#: How often an app that crashed on the question is asked again at once.
CRASHES = 3


@dataclass
class NodeRegistry:
    """The register of connected nodes: admitted clients, and nodes that were turned away.

    Parameters
    ----------
    nodes : node id of every client that was ever admitted; the latest, by client id.
    introductions : what each client said of itself, by client id.
    online : clients whose node is connected now.
    turned_away : nodes that are not asked for now, and why.
    identities : whose key is whose.
    bound : whether that counts; else anybody may be anybody.
    version : this side's, by which a device is behind, or its packages are others.
    given : keys of the run's configuration that a device must know.
    of_sums, regression : whether the run is of secure sums, or of a target, which devices must fit.
    roster : the file of a roster that is passed on to devices; b"": none.
    settings : the run's configuration, for devices that have no app; empty: all have it.
    heard : when there was a sign of life last, by the link's clock: a node came or was let in anew,
        an answer came, or a heartbeat of a node that still starts.
    departures : who will not come back.
    """

    nodes: dict[str, int] = field(default_factory=dict)
    introductions: dict[str, Introduction] = field(default_factory=dict)
    online: set[str] = field(default_factory=set)
    turned_away: dict[int, str] = field(default_factory=dict)
    identities: Identities = field(default_factory=Identities)
    bound: bool = True
    version: str = VERSION
    given: tuple[str, ...] = ()
    of_sums: bool = False
    regression: bool = False
    roster: bytes = b""
    settings: Mapping[str, Any] = field(default_factory=dict)
    heard: float = -math.inf
    departures: Departures = field(default_factory=Departures)
    #: Nodes turned away for good, as the run was told to forget whose they are, or they are no
    #: member's.
    forgotten: set[int] = field(default_factory=set)
    _keys: dict[int, NodeKey] = field(default_factory=dict)
    #: By question: the node, when it was asked, and when it had been let in.
    _questions: dict[str, tuple[int, float, str]] = field(default_factory=dict)
    _claims: dict[int, str] = field(default_factory=dict)
    _again: dict[int, float] = field(default_factory=dict)
    _crashes: Counter[int] = field(default_factory=Counter)
    #: When the nodes were looked at last.
    _looked: float = 0.0

    @property
    def waiting(self) -> int:
        """The number of connected nodes that have not answered yet."""
        return len({node for node, _, _ in self._questions.values()})

    @property
    def all_refused(self) -> bool:
        """Whether there are nodes, and every one of them was turned away."""
        return bool(self._keys) and self._keys.keys() <= self.turned_away.keys()

    @property
    def simulated(self) -> bool:
        """Whether all say that they are simulated; one among real ones is taken for real."""
        return all(introduction.people for introduction in self.introductions.values())

    def behind(self) -> dict[str, str]:
        """Return the releases of clients whose release is older than this server's."""
        versions = {client: each.version for client, each in dict(self.introductions).items()}
        return behind(versions, self.version)

    def since(self, client: str) -> str:
        """Return when a client's node was let in last, as Flower writes it; "" if unknown."""
        return self.key(self.nodes.get(client, 0)).activated

    def refresh(self, link: Link) -> None:
        """Note the connected nodes, ask those that are new, and take the answers that have come."""
        before, self._keys, now = self._keys, self._nodes(link), link.clock.now
        self._looked = now
        connected = set(self._keys)
        # Once the client's first node is gone, the second of that id may be the one.
        for node in [
            n for n, client in self._claims.items() if self.nodes.get(client) not in connected
        ]:
            del self.turned_away[node], self._claims[node], self._again[node]
        for node in [n for n, due in self._again.items() if now >= due]:
            del self.turned_away[node], self._again[node]
        # Who was let in anew may have lost the question.
        asked = {
            node
            for node, since, activated in self._questions.values()
            if now - since < UNANSWERED_SECONDS and self.key(node).activated == activated
        }
        strangers = sorted(connected - asked - set(self.nodes.values()) - self.turned_away.keys())
        self._ask(link, strangers)
        self._questions = {m: q for m, q in self._questions.items() if q[0] in connected}
        replies = link.pull(self._questions)
        answers = {self._questions[i][0]: came for i, came in replies.items()}
        if answers or any(self._lives(node, before.get(node), now) for node in connected):
            self.heard = now
        self._questions = {m: q for m, q in self._questions.items() if q[0] not in answers}
        for node in sorted(answers):
            self._take_answer(node, answers[node], connected, link)
        link.joins = {self.nodes[c] for c, said in self.introductions.items() if said.joined}
        self.online = {client for client, node in self.nodes.items() if node in connected}
        self.departures.look(link, connected)

    def turn_away(self, client: str, why: str) -> None:
        """Forget an admitted client; its node is asked again much later."""
        node = self.nodes.pop(client)
        self.departures.nodes.pop(client, None)
        del self.introductions[client]
        self.online.discard(client)
        self._refuse(node, why)

    def bind(self, clients: Iterable[str]) -> None:
        """Bind clients to the keys with which they took part: no other may come in their name."""
        # What is simulated has a new key whenever it goes on.
        for client in clients if self.bound and not self.simulated else ():
            self.identities.tie(client, self.key(self.nodes[client]))

    def _ask(self, link: Link, nodes: list[int]) -> None:
        said = {handshake.HANDSHAKE: greeting.greeting(self.version, self.given, self.roster)}
        if self.settings:
            said[greeting.SETTINGS] = ConfigRecord(dict(self.settings))
        questions = [
            Message(RecordDict(said), node, MessageType.QUERY, group_id="0")  # type: ignore[arg-type]
            for node in nodes
        ]
        faults, now = link.push(questions), link.clock.now
        for question, node, fault in zip(questions, nodes, faults, strict=True):
            if fault is None:
                activated = self.key(node).activated
                self._questions[question.metadata.message_id] = node, now, activated
            elif not fault.away:
                self._refuse(node, f"the question to it: {fault.reason}", AGAIN_SECONDS)

    def _take_answer(
        self, node: int, reply: Message | Fault, connected: set[int], link: Link
    ) -> None:
        if isinstance(reply, Fault):
            self._refuse(node, f"its answer: {reply.reason}")
            return
        if reply.has_error():
            code = reply.error.code
            if code == ErrorCode.CLIENT_APP_CRASHED and self._crashes[node] < CRASHES:
                self._crashes[node] += 1  # it is asked again at once
                log.warning(
                    "node %d: its app crashed and is asked again: %s", node, cut(reply.error.reason)
                )
                return
            # Its file may be unreadable for a moment: it is asked again, but not at once.
            self._refuse(node, f"error {code}: {cut(reply.error.reason)}", AGAIN_SECONDS)
            return
        if LEAVE in reply.content:
            self._refuse(node, *take_leave(self, node, reply.content[LEAVE], link))
            return
        try:
            record = reply.content.config_records[handshake.HANDSHAKE]
            introduction = read_introduction(record)
            greeting.check_versions(record, introduction.client, self.version)
            greeting.check_run(introduction, self.of_sums, self.regression)
        except KeyError:
            self._refuse(node, "no handshake in its answer")
            return
        except MessageRefused as error:
            self._refuse(node, f"handshake refused: {error}")
            return
        client = introduction.client
        if why := self.departures.refusal(client):
            self.forgotten.add(node)
            self._refuse(node, why, math.inf)
            return
        if self.bound and (why := self.identities.refusal(client, self.key(node))):
            self._refuse(node, why)
            return
        known = self.nodes.get(client)
        if known is not None and known in connected:
            if self.key(node).names() != client or self.key(known).names() == client:
                why = f"client id {client!r} came from two nodes, {known} and {node}; the second "
                why += "is refused; give every device an id of its own"
                self._refuse(node, why, math.inf)
                self._claims[node] = client
                return
            self.turn_away(client, f"the key of node {node} was registered as client {client!r}")
        self.nodes[client] = node
        self.introductions[client] = daily_hours.heard(introduction, link.clock.now)
        self.departures.admit(client, node)
        log_release(client, introduction.version, self.version)

    def _lives(self, node: int, before: NodeKey | None, now: float) -> bool:
        """Return whether a node came, was let in anew, or had a heartbeat while it starts."""
        key = self.key(node)
        if before is None or key.activated != before.activated:
            return True
        asked = [since for asked_node, since, _ in self._questions.values() if asked_node == node]
        return key.alive > before.alive and bool(asked) and now - min(asked) < UNANSWERED_SECONDS

    def _nodes(self, link: Link) -> dict[int, NodeKey]:
        """Return the connected nodes, without those whose keys are of another federation's."""
        elsewhere, nodes = self.departures.elsewhere, link.nodes().items()
        return {n: key for n, key in nodes if not (self.bound and elsewhere(key.names()))}

    def key(self, node: int) -> NodeKey:
        """Return the key of a connected node; an empty one of another."""
        return self._keys.get(node, NodeKey())

    def _refuse(self, node: int, why: str, again: float = MISFIT_SECONDS) -> None:
        self.turned_away[node] = why
        self._again[node] = self._looked + again
        log.warning("node %d: %s", node, why)
