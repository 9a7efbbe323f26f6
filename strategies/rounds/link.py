"""The link to the nodes: Flower's Grid, message by message and behind bounds.

A Grid takes and gives messages by the list. Over a network one that cannot be read raises and
costs the whole list, and one whose parts never come blocks it for hours: any node could end or
stop a run. Here each message stands for itself.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any, TypeVar

from flwr.app import Message
from flwr.serverapp import Grid

from fedsub_core.errors import cut
from fedsub_core.flower.grid import announced, asks_at_once, reply_of
from fedsub_core.flower.messages import is_simulated
from fedsub_core.wire.exchange import salted
from fedsub_core.wire.joined import joined, separate
from strategies.rounds.clock import Clock
from strategies.rounds.identity import NodeKey, key_digest
from strategies.rounds.inflation import bounded

T = TypeVar("T")

#: Messages that are taken or given at once.
WORKERS = 8
#: Messages that an engine of this process is given at once, fewer where their answers may have more
#: bytes than this. The next stack of clients goes with the next.
AT_ONCE, BYTES_AT_ONCE = 256, 2**29
#: Messages of which the link is asked at once whether they are answered.
ASKED_AT_ONCE = 64
#: Seconds that a look for replies waits for those that are just coming in.
GRACE = 1.0


@dataclass(frozen=True)
class Fault:
    """Why a message could not be given or taken; `away`: because its node is not there now."""

    reason: str
    away: bool = False


NOT_TAKEN = Fault("the link did not take it", away=True)


class Link:
    """A Grid that nothing a node does can break.

    Parameters
    ----------
    grid : an engine of this process, which says so by `in_process`, takes and gives lists: both
        its ends are ours. One whose time is simulated brings its `clock`.
    grace : seconds.
    """

    def __init__(self, grid: Grid, grace: float = GRACE) -> None:
        self.grid, self.grace = grid, grace
        #: That whoever waits for the link goes by.
        self.clock: Clock = getattr(grid, "clock", Clock())
        #: Bytes that a reply's arrays may hold though fewer came: equal chunks are sent once.
        self.most_bytes = 0
        #: Whether clients are of this process, and so simulated whatever they say.
        self.in_process = bool(getattr(grid, "in_process", False))
        #: Whether all who will ever be there are there from the start, and answer at once.
        self.closed = bool(getattr(grid, "closed", False))
        #: Whether nodes are simulated by Flower's engine, which lists them before any answers.
        self.simulates = is_simulated(grid)
        #: Whether clients of successive nodes share stacks.
        self.stacked = hasattr(grid, "stack_of")
        #: Whether clients take messages, and answer them, without their being written.
        self.by_reference = bool(getattr(grid, "by_reference", False))
        #: Whether it says of many messages at once which are answered, before replies are fetched.
        self.asks_at_once = asks_at_once(grid)
        #: Nodes that understand joined messages.
        self.joins: Set[int] = frozenset()
        #: Nodes that were connected when they were looked at last, and what was known of each.
        self.there: Mapping[int, NodeKey] = {}
        self._lock = threading.Lock()
        #: Ids that a worker is asking for, and what workers found since the last look.
        self._busy: set[str] = set()
        self._found: dict[str, Message | Fault] = {}
        #: By id of the message: what the link said of replies that are still to be fetched.
        self._answers: dict[str, Any] = {}

    def nodes(self) -> dict[int, NodeKey]:
        """Return the connected nodes: what is known of each one's key, by node id."""
        nodes = {
            node.node_id: NodeKey(
                key_digest(node.public_key), node.name, node.last_activated_at, node.online_until
            )
            for node in self.grid.get_nodes()
        }
        self.there = nodes
        return nodes

    def portions(self, asked: Iterable[tuple[str, Message]]) -> Iterator[list[tuple[str, Message]]]:
        """Cut messages to clients into those that are sent before replies are read: all at once.

        But an engine of this process works while it is given them: all messages and replies of a
        large federation would be held at once. Clients that share a stack stay together, as far as
        their messages come one after another.
        """
        stack_of: Callable[[int], int] | None = getattr(self.grid, "stack_of", None)
        some, last = list[tuple[str, Message]](), None
        most = min(AT_ONCE, BYTES_AT_ONCE // max(self.most_bytes, 1))
        for client, message in asked:
            stack = None if stack_of is None else stack_of(message.metadata.dst_node_id)
            if len(some) >= most and stack != last:
                yield some
                some = []
            some.append((client, message))
            last = stack
        yield some

    def push(self, messages: Sequence[Message]) -> list[Fault | None]:
        """Send messages; return for each what went wrong, None where nothing did.

        Raises whatever Flower's raises where the link itself is gone.
        """
        if not messages:
            return []
        if self.in_process:
            # No id, or a shorter list, for what it could not take; ids also stand in messages.
            taken = set(self.grid.push_messages(list(messages)))
            return [None if m.metadata.message_id in taken else NOT_TAKEN for m in messages]
        faults: dict[int, Fault | None] = {}

        def push_one(i: int) -> None:
            try:
                content, node = messages[i].content, messages[i].metadata.dst_node_id
                messages[i].content = salted(joined(content) if node in self.joins else content)
                ids = set(self.grid.push_messages([messages[i]]))
                known = messages[i].metadata.message_id in ids
                faults[i] = None if known else NOT_TAKEN
            except Exception as error:  # whatever it is, it is about this message alone
                faults[i] = _fault(error)

        for worker in self._start(deque(range(len(messages))), push_one):
            worker.join()
        self._blame_the_right_one(faults.values())
        return [faults[i] for i in range(len(messages))]

    def pull(self, ids: Iterable[str]) -> dict[str, Message | Fault]:
        """Return the replies that have come, by the id of the message that they answer.

        Raises whatever Flower's raises where the link itself is gone.
        """
        wanted = set(ids)
        if self.in_process:
            replies = list(self.grid.pull_messages(sorted(wanted))) if wanted else []
            return {reply.metadata.reply_to_message_id: reply for reply in replies}
        with self._lock:
            unasked = sorted(wanted - self._busy - self._found.keys() - self._answers.keys())
        alone = self._ask_at_once(unasked) if self.asks_at_once else unasked
        todo = deque([*sorted(wanted & self._answers.keys()), *alone])
        deadline = self.clock.now + self.grace
        for worker in self._start(todo, self._pull_one):
            worker.join(max(0.0, deadline - self.clock.now))
        with self._lock:
            todo.clear()  # who is not through yet goes on alone; the rest is asked for next time
            replies_by_id = {i: self._found.pop(i) for i in wanted & self._found.keys()}
        self._blame_the_right_one(replies_by_id.values())
        return replies_by_id

    def _ask_at_once(self, ids: list[str]) -> list[str]:
        """Note which messages are answered; return those of which the link did not say it."""
        alone = list[str]()
        for some in (ids[i : i + ASKED_AT_ONCE] for i in range(0, len(ids), ASKED_AT_ONCE)):
            try:
                said = announced(self.grid, some)
            except Exception:  # one of them may be why: each is asked for alone, and says so
                alone += some
                continue
            self._answers |= {i: answer for i, answer in said.items() if i in some}
        return alone

    def _pull_one(self, identity: str) -> None:
        with self._lock:
            if identity in self._busy or identity in self._found:
                return
            self._busy.add(identity)
            said = self._answers.pop(identity, None)
        outcome: Message | Fault | None = None
        try:
            with bounded(self.most_bytes):
                if said is None:
                    replies = list(self.grid.pull_messages([identity]))
                else:
                    replies = reply_of(self.grid, identity, said)
            for reply in replies:
                answered = reply.metadata.reply_to_message_id
                if not reply.has_error():
                    node = f"of node {reply.metadata.src_node_id}"
                    reply.content = separate(reply.content, node)
                outcome = reply if answered == identity else Fault(f"it answers {cut(answered)!r}")
        except Exception as error:  # whatever it is, it is about this reply alone
            outcome = _fault(error)
        with self._lock:
            self._busy.discard(identity)
            if outcome is not None:
                self._found[identity] = outcome

    def _start(self, todo: deque[T], work: Callable[[T], None]) -> list[threading.Thread]:
        """Start workers that share `todo`; daemons, for one may be blocked when the run ends."""

        def go_on() -> None:
            while True:
                try:
                    item = todo.popleft()
                except IndexError:
                    return
                work(item)

        workers = [
            threading.Thread(target=go_on, daemon=True) for _ in range(min(WORKERS, len(todo)))
        ]
        for worker in workers:
            worker.start()
        return workers

    def _blame_the_right_one(self, outcomes: Iterable[Message | Fault | None]) -> None:
        """Ask the link something harmless after a fault: if it is down, it says so by raising."""
        if any(isinstance(outcome, Fault) for outcome in outcomes):
            self.nodes()


def _fault(error: Exception) -> Fault:
    return Fault(cut(f"{type(error).__name__}: {error}"))
