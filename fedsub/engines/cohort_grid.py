"""CohortGrid: Flower's Grid in one process, with the federation as a few stacks of clients.

The strategy cannot tell it from a SuperLink: messages go out, replies come back, the payloads are
the wire's bytes. Behind it, clients of like size share a stack, and stacks train in threads.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import count

import torch
from flwr.app import Message, MessageType, RecordDict
from flwr.serverapp import Grid
from flwr.supercore.run import Run
from flwr.supercore.task_identity import TaskIdentity
from torch import Tensor

from fedsub.engines.cohort_answers import ANSWERS
from fedsub.engines.gathering import Members, gathered, give_back
from fedsub_client.cohort import Cohort, make_cohort
from fedsub_client.split_client import SplitClient
from fedsub_core.config.settings import DeviceSettings
from fedsub_core.data.federation import Card
from fedsub_core.errors import RunError

#: Most clients per stack. On a CPU eight models and their batch stay in a core's cache; a GPU wants
#: as many at once as there are.
CHUNK = {"cpu": 8, "cuda": 512}


class CohortGrid(Grid):
    """A federation in one process.

    Parameters
    ----------
    settings : what the configuration says to the device half of the method.
    card, clients : the federation, split.
    device : ``cpu``, ``cuda`` or ``auto``.
    threads : stacks trained at once on a CPU, one core each.
    """

    #: Both its ends are ours: it takes whole lists, and trains them together.
    in_process = True

    def __init__(
        self,
        settings: DeviceSettings,
        card: Card,
        clients: Sequence[SplitClient],
        device: str = "auto",
        threads: int = 1,
    ) -> None:
        device = resolve_device(device)
        # Like sizes together: a stack is padded to its longest client. Ties by id.
        by_size = sorted(clients, key=lambda c: (-len(c.train_y), c.client))
        workers = 1 if device == "cuda" else threads
        waves = -(-len(by_size) // (workers * CHUNK[device]))
        self._size = size = -(-len(by_size) // (workers * waves))
        self.cohorts = [
            make_cohort(settings, card, by_size[start : start + size], device)
            for start in range(0, len(by_size), size)
        ]
        self._where = {
            node: (cohort, i)
            for node, (cohort, i) in enumerate(
                ((c, i) for c in self.cohorts for i in range(len(c.clients))), start=1
            )
        }
        # One core per thread: OpenMP teams of several threads fight over few cores.
        self._pool = ThreadPoolExecutor(workers, initializer=_one_core)
        self._ids = count(1)
        self._replies: dict[str, Message] = {}
        # Flower stamps every message with who runs it; here that is this process alone.
        TaskIdentity.run_id, TaskIdentity.task_id, TaskIdentity.node_id = 0, 0, 0

    def close(self) -> None:
        """End the worker threads."""
        self._pool.shutdown()

    def state(self) -> dict[str, dict[str, Tensor]]:
        """Return every client's state, ``client/<id>`` to named tensors without a client axis."""
        return {
            f"client/{client.client}": cohort.client_state(i)
            for cohort in self.cohorts
            for i, client in enumerate(cohort.clients)
        }

    def load_state(self, state: Mapping[str, Mapping[str, Tensor]]) -> None:
        """Inverse of :meth:`state`.

        Raises
        ------
        RunError
            If a client of the federation is not in `state`.
        """
        for cohort in self.cohorts:
            missing = [c.client for c in cohort.clients if f"client/{c.client}" not in state]
            if missing:
                raise RunError(f"the run's state lacks clients {', '.join(missing)}")
            cohort.load_states([state[f"client/{c.client}"] for c in cohort.clients])

    # Flower's Grid.

    def set_run(self, run: Run) -> None:
        """Do nothing: there is no link to tell."""

    @property
    def run(self) -> Run:
        """A run of this process alone."""
        return Run.create_empty(0)

    def create_message(
        self,
        content: RecordDict,
        message_type: str,
        dst_node_id: int,
        group_id: str,
        ttl: float | None = None,
    ) -> Message:
        """Return a new message (Flower's older way to make one)."""
        return Message(content, dst_node_id, message_type, ttl=ttl, group_id=group_id)

    def get_node_ids(self) -> Iterable[int]:
        """Node ids, from 1."""
        return list(self._where)

    def push_messages(self, messages: Iterable[Message]) -> Iterable[str]:
        """Let the addressed clients work; their replies wait to be pulled."""
        ids, work = [], defaultdict[str, list[Message]](list)
        for message in messages:
            # Flower sets the id when a message is handed over; there is no public way.
            message.metadata.__dict__["_message_id"] = f"message-{next(self._ids)}"
            ids.append(message.metadata.message_id)
            work[message.metadata.message_type].append(message)
        for kind, asked in work.items():
            for reply in self._answers(kind, asked):
                self._replies[reply.metadata.reply_to_message_id] = reply
        return ids

    def _answers(self, kind: str, asked: Sequence[Message]) -> Iterator[Message]:
        """Let clients answer messages of one kind, in stacks as full as can be."""
        told = {message.metadata.dst_node_id: message for message in asked}
        by_cohort = defaultdict[int, list[int]](list)
        for node in sorted(told):
            by_cohort[id(self._where[node][0])].append(node)
        groups, few = [], list[int]()
        for nodes in by_cohort.values():
            whole = len(nodes) == len(self._where[nodes[0]][0].clients)
            groups += [nodes] if whole else []
            few += [] if whole else nodes
        # Ascending nodes have like sizes of data.
        groups += [few[start : start + self._size] for start in range(0, len(few), self._size)]
        tasks = []
        for nodes in groups:
            members = [self._where[node] for node in nodes]
            task = self._pool.submit(_answer, kind, members, [told[node] for node in nodes])
            tasks.append((task, members))
        for task, members in tasks:
            replies, joined = task.result()
            if joined is not None and kind == MessageType.TRAIN:
                give_back(joined, members)
            yield from replies

    def pull_messages(self, message_ids: Iterable[str]) -> Iterable[Message]:
        """Return the replies to the messages of these ids, each once."""
        return [self._replies.pop(i) for i in message_ids if i in self._replies]

    def send_and_receive(
        self, messages: Iterable[Message], *, timeout: float | None = None
    ) -> Iterable[Message]:
        """Let the addressed clients work and return their replies; none is ever late."""
        return self.pull_messages(self.push_messages(messages))


def _answer(
    kind: str, members: Members, told: Sequence[Message]
) -> tuple[list[Message], Cohort | None]:
    """Return what clients answer, and the cohort they were joined in if they are of several."""
    cohort = members[0][0]
    if all(of is cohort for of, _ in members):
        places = [i for _, i in members]
        return ANSWERS[kind](cohort, list(zip(places, told, strict=True))), None
    joined = gathered(members)
    return ANSWERS[kind](joined, list(enumerate(told))), joined


def resolve_device(device: str) -> str:
    """Return ``cpu`` or ``cuda``; ``auto`` takes a GPU where there is one."""
    if device == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    if device == "cuda" and not torch.cuda.is_available():
        raise RunError("device cuda was asked for, but PyTorch sees no GPU: use cpu or auto")
    return device


def _one_core() -> None:
    torch.set_num_threads(1)
