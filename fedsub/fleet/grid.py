"""Flower's Grid in virtual time: real devices behind a link that people's habits open and close."""

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from heapq import heappop, heappush
from typing import Any

import numpy as np
from flwr.app import Error, Message

from fedsub.engines.in_process_grid import InProcessGrid
from fedsub.fleet.clock import FleetClock
from fedsub.fleet.devices import FleetDevices
from fedsub.fleet.habits import Habits, merged
from fedsub_core.errors import RunError
from fedsub_core.flower.messages import ErrorCode, NodeInfo, stamp_id
from fedsub_core.seeds import derive_seed
from fedsub_core.wire import exchange

#: Seconds until a SuperLink notices that a node is gone, and between a node's looks for messages.
NOTICED, LOOK = 50.0, 3.0
#: What becomes of a node.
GOES, COMES, REPLACED = range(3)
#: What can go wrong with a message, by the seed: its process crashes, it is lost without a word,
#: or its answer is garbled.
CRASHED, LOST, GARBLED = FAULTS = ("crashed", "lost", "garbled")


@dataclass(eq=False)
class _Job:
    """A message on its way: when its device takes it, and when its answer is at the link."""

    identity: str
    message: Message
    node: int
    taken: float
    answered: float
    expires: float
    fault: str = ""
    forgotten: float = math.inf


class FleetGrid(InProcessGrid):
    """A SuperLink and its devices, in virtual time.

    Devices are :class:`~fedsub_client.device.Device`; messages are written as on a network. A
    message to a device that is away waits at the link. As at a SuperLink, one whose node is gone
    is forgotten when it is asked for.

    Parameters
    ----------
    people : everybody's habits, by client.
    data : folder of the federation.
    config : the run's, flat.
    end : seconds that are simulated.
    faults : share of messages with which something goes wrong.
    seed : of the faults.
    """

    def __init__(
        self,
        people: Mapping[str, Habits],
        data: str,
        config: Mapping[str, Any],
        end: float,
        faults: float = 0.0,
        seed: int = 0,
    ) -> None:
        super().__init__([])
        self.people, self.faults, self.seed = people, faults, seed
        self._devices = FleetDevices(data, config)
        self.clock = FleetClock(end, lambda: self._due[0][0] if self._due else math.inf)
        #: Node by client, and the other way round; a new phone is another node.
        self.node_of = {client: number + 1 for number, client in enumerate(people)}
        self.client_of = {node: client for client, node in self.node_of.items()}
        self._since: dict[int, float] = {}
        #: Those of :meth:`get_nodes`, until one comes or goes.
        self._connected: list[NodeInfo] | None = None
        self._jobs: dict[str, _Job] = {}
        self._due: list[tuple[float, int, _Job]] = []
        self._busy = defaultdict[str, float](float)
        self._sent: Counter[str] = Counter()
        self._events, self._passed = self._changes(), 0
        #: How often each person's device worked.
        self.worked: Counter[str] = Counter()

    def _changes(self) -> list[tuple[float, int, str]]:
        """Return when nodes come, go, or are replaced, ascending."""
        found = []
        for client, own in self.people.items():
            seen = merged(own.there + np.array([0.0, NOTICED]))
            found += [(float(begin), COMES, client) for begin, _ in seen]
            found += [(min(float(end), own.left), GOES, client) for _, end in seen]
            found += [(moment, REPLACED, client) for moment in own.phones]
        return sorted(found)

    def _pass(self) -> None:
        """Let happen what happens until now."""
        over = math.inf, 0, ""
        while True:
            change = self._events[self._passed] if self._passed < len(self._events) else over
            due = self._due[0][0] if self._due else math.inf
            if min(change[0], due) > self.clock.now:
                return
            if due < change[0]:
                self._answer(heappop(self._due)[2])
            else:
                self._passed += 1
                self._change(*change)

    def _change(self, moment: float, what: int, client: str) -> None:
        """Let a node come, go, or be replaced."""
        self._connected = None
        node = self.node_of[client]
        if what == COMES:
            self._since[node] = moment
        elif what == GOES:
            self._since.pop(node, None)
        else:
            self._replace(client, node)

    def _replace(self, client: str, node: int) -> None:
        """Give a person a new phone, with a key of its own and nothing of before."""
        self._devices.replace(client)
        new = self.node_of[client] = node + len(self.people)
        self.client_of[new] = client
        if (since := self._since.pop(node, None)) is not None:
            self._since[new] = since
        self._busy[client] = 0.0

    def get_node_ids(self) -> Iterable[int]:
        """Return the nodes that are connected now."""
        self._pass()
        return sorted(self._since)

    def get_nodes(self) -> Iterable[NodeInfo]:
        """Return the connected nodes with their keys, registered under their people's ids."""
        nodes = self.get_node_ids()
        if self._connected is None:
            self._connected = [
                NodeInfo(node_id=node, public_key=f"key {node}".encode(), name=self.client_of[node])
                for node in nodes
            ]
        return self._connected

    def push_messages(self, messages: Iterable[Message]) -> Iterable[str]:
        """Take messages; return the ids of those whose node is registered."""
        self._pass()
        ids = []
        for message in messages:
            node = message.metadata.dst_node_id
            client = self.client_of[node]
            if self.node_of[client] == node and self.clock.now < self.people[client].left:
                ids.append(self._take(client, node, message))
        return ids

    def _take(self, client: str, node: int, message: Message) -> str:
        own, now = self.people[client], self.clock.now
        self._sent[client] += 1
        draw = np.random.default_rng(derive_seed(self.seed, client, self._sent[client], "message"))
        identity = f"message-{next(self._ids)}"
        stamp_id(message, identity)
        training = exchange.PAYLOAD in message.content
        size = len(exchange.unpack(message.content)) if training else 0
        taken = own.next_there(max(now + draw.uniform(0, LOOK), self._busy[client]))
        done = taken + size / own.rate + own.work * (draw.uniform(0.5, 1.5) if training else 0.1)
        expires = now + message.metadata.ttl
        fault = str(draw.choice(FAULTS)) if draw.random() < self.faults else ""
        job = _Job(identity, message, node, taken, own.next_there(done), expires, fault)
        self._jobs[identity] = job
        if taken < expires:
            self._busy[client] = done
            heappush(self._due, (job.answered, next(self._ids), job))
        return identity

    def _answer(self, job: _Job) -> None:
        """Let a device do what it took, if it is still that device."""
        client = self.client_of[job.node]
        unseen = job.taken >= job.forgotten
        if self.node_of[client] != job.node or unseen or job.fault == LOST:
            return
        if job.fault == CRASHED:
            reply = Message(
                Error(ErrorCode.CLIENT_APP_CRASHED, "by the seed"), reply_to=job.message
            )
        else:
            reply = self._work(client, job.message)
            if job.fault == GARBLED:
                garble(reply)
        if job.forgotten == math.inf and job.answered < job.expires:
            self._replies[job.identity] = reply

    def _work(self, client: str, message: Message) -> Message:
        self.worked[client] += 1
        kind = message.metadata.message_type
        try:
            answer = self._devices.answer(client, kind, message.content)
            return Message(answer, reply_to=message)
        except Exception as error:  # as a SuperNode answers it
            return Message(Error(ErrorCode.UNKNOWN, str(error)), reply_to=message)

    def pull_messages(self, message_ids: Iterable[str]) -> Iterable[Message]:
        """Return the replies that are there; of a message whose node is gone, that it is lost."""
        self._pass()
        found = []
        for identity in message_ids:
            if (job := self._jobs.get(identity)) is None:
                continue
            reply = self._replies.pop(identity, None)
            if reply is None and job.node not in self._since:
                reply = Message(Error(ErrorCode.NODE_UNAVAILABLE, "offline"), reply_to=job.message)
            elif reply is None and self.clock.now >= job.expires:
                error = Error(ErrorCode.MESSAGE_UNAVAILABLE, "expired")
                reply = Message(error, reply_to=job.message)
            if reply is not None:
                job.forgotten = self.clock.now
                del self._jobs[identity]
                found.append(reply)
        return found

    def answers(self, messages: Iterable[Message]) -> Iterable[Message]:
        """Refuse: nobody answers at once."""
        raise RunError("a fleet answers in time: got no message pushed, expected push_messages")


def garble(reply: Message) -> None:
    """Turn bits of a reply's payload, as a link without checksums would."""
    if reply.has_error() or exchange.PAYLOAD not in reply.content:
        return
    payload = np.frombuffer(exchange.unpack(reply.content), np.uint8).copy()
    payload[:: max(1, len(payload) // 64)] ^= 0xFF
    reply.content[exchange.PAYLOAD] = exchange.pack(payload.tobytes())
