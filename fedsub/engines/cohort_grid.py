"""CohortGrid: a federation in this process, as a few stacks of clients.

Clients of like size share a stack, and stacks train in threads.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from math import prod

import torch
from flwr.app import Message, MessageType
from threadpoolctl import threadpool_limits

from fedsub.engines.cohort_answers import give_back, joined_replies, share_alike, sum_reply
from fedsub.engines.heap import keep_freed_pages
from fedsub.engines.in_process_grid import SimulationGrid, check_clients
from fedsub.engines.stacks import by_size, like_stacks, stack_size
from fedsub.engines.sum_people import SumPeople
from fedsub_client.cohort import Cohort
from fedsub_client.learner import State
from fedsub_client.new_cohort import make_cohort
from fedsub_client.personal_model import PersonalModel
from fedsub_client.split_client import SplitClient
from fedsub_core.config.halves import DeviceSettings
from fedsub_core.cores import work_beside
from fedsub_core.data.federation import Card
from fedsub_core.data.samples import Pixels
from fedsub_core.data.standardise import Scaling
from fedsub_core.errors import RunError
from fedsub_core.methods.table import method
from fedsub_core.metric_names import CAPACITY
from fedsub_core.secure.messages import SECURE
from fedsub_core.turn import Turn
from fedsub_core.wire import exchange
from fedsub_core.wire.bundles import Bundle
from fedsub_core.wire.in_process_message import content_of

#: Of more bytes of what stacks hold, each stack is made anew in each round.
STACKS_BYTES = 2**30


class CohortGrid(SimulationGrid):
    """A federation in one process.

    Parameters
    ----------
    settings : what the configuration says to the device half of the method.
    card, clients : the federation, split.
    device : ``cpu``, ``cuda`` or ``auto``.
    threads : stacks trained at once on a CPU, one core each.
    nodes : of the clients, in the order of :func:`by_size`; None: from 1.
    """

    #: Its clients are of this process; written messages, such as other strategies', are read, too.
    by_reference = True

    def __init__(
        self,
        settings: DeviceSettings,
        card: Card,
        clients: Sequence[SplitClient],
        device: str = "auto",
        threads: int = 1,
        nodes: Sequence[int] | None = None,
    ) -> None:
        super().__init__(range(1, len(clients) + 1) if nodes is None else nodes)
        device, clients = resolve_device(device), by_size(clients)
        keep_freed_pages()
        workers = 1 if device == "cuda" else threads
        self._size = stack_size(len(clients), device, workers)
        self._of, self._device = (settings, card), device
        self._node_of = dict(zip((one.client for one in clients), self._nodes, strict=True))
        self._resizes = method(settings.method).weak.resizes and any(one.drawn for one in clients)
        self._place(clients)
        secure = settings.secure
        names = [one.client for one in clients] if secure.secure_aggregation else []
        self._people = SumPeople(names, secure.secure_least)
        #: Whether some rounds ask only some clients, and whether all stacks fit into memory.
        self._sampled = False
        seen = self.cohorts[0].learner.model.input_shape
        width = 1 if isinstance(seen, Pixels) or self.cohorts[0].data.levels else 4
        samples = sum(len(one.train_y) + len(one.test_y) for one in clients)
        self._fits = width * prod(seen) * samples <= STACKS_BYTES
        # No thread knows the grid: its models' memory is free as soon as the grid is dropped.
        pool: ThreadPoolExecutor
        pool = ThreadPoolExecutor(workers, initializer=lambda: _begin(pool, workers))
        self._pool = pool

    def stacks(self, round: int) -> list[list[str]]:
        """Return the clients of each stack after a round."""
        self._begin_round(round)
        return [[client.client for client in cohort.clients] for cohort in self.cohorts]

    def stack_of(self, node: int) -> int:
        """Return a number of the stack that a client is in."""
        return id(self._where[node][0])

    def close(self) -> None:
        """End the worker threads."""
        self._pool.shutdown()

    def _place(self, clients: Sequence[SplitClient]) -> None:
        """Put clients, in the order of :func:`by_size`, into stacks of like ones."""
        self.cohorts = list[Cohort]()
        for part in like_stacks(clients, self._size, self._device):
            self.cohorts.append(make_cohort(*self._of, clients[part], self._device))
            share_alike(self.cohorts[-1])
        self._where = {
            self._node_of[client.client]: (cohort, i)
            for cohort in self.cohorts
            for i, client in enumerate(cohort.clients)
        }

    def _resize(self, capacities: Mapping[str, float]) -> None:
        """Let clients hold these shares; whose model has another size then begins anew."""
        now = [client for cohort in self.cohorts for client in cohort.clients]
        if all(one.capacity == capacities[one.client] for one in now):
            return
        kept = self.state()
        self._place(by_size([one.holding(capacities[one.client]) for one in now]))
        for cohort in self.cohorts:
            new = [cohort.client_state(i) for i in range(len(cohort.clients))]
            old = [kept[f"client/{one.client}"] for one in cohort.clients]
            cohort.load_states([o if cohort.fits(o) else n for o, n in zip(old, new, strict=True)])

    def _begin_round(self, round: int) -> None:
        """Let clients hold what they draw for a round, where they draw."""
        if self._resizes:
            people = [client for cohort in self.cohorts for client in cohort.clients]
            seed = self._of[0].seed
            self._resize({one.client: one.can_hold.at(seed, one.client, round) for one in people})

    def state(self) -> dict[str, State]:
        """Return every client's state, ``client/<id>`` to named tensors without a client axis."""
        return self.state_of(self._where)

    def state_of(self, nodes: Iterable[int]) -> dict[str, State]:
        """Return the state of the clients of some nodes."""
        members = [self._where[node] for node in nodes]
        return {
            f"client/{client.client}": cohort.client_state(i) | self._held(client)
            for cohort, i in members
            for client in (cohort.clients[i],)
        }

    def _held(self, client: SplitClient) -> State:
        """Return, where it changes, which share a client's state is of."""
        return (
            {CAPACITY: torch.tensor(client.capacity, dtype=torch.float64)} if self._resizes else {}
        )

    def load_state(self, state: Mapping[str, State]) -> None:
        """Inverse of :meth:`state`."""
        people = [client for cohort in self.cohorts for client in cohort.clients]
        check_clients(state, people)
        if self._resizes:
            names = [one.client for one in people]
            self._resize({c: state[f"client/{c}"][CAPACITY].item() for c in names})
        for cohort in self.cohorts:
            cohort.load_states([state[f"client/{c.client}"] for c in cohort.clients])
            share_alike(cohort)

    def personal_models(
        self, turn: Turn, scaling: Scaling | None, received: Mapping[str, Bundle]
    ) -> Iterator[PersonalModel]:
        """Yield every client's model as it is evaluated after what it `received`.

        Stacks of which nobody did (:meth:`stacks`) are left out.
        """
        self._begin_round(turn.round)
        for cohort in self.cohorts:
            clients = [c.client for c in cohort.clients]
            if clients[0] not in received:
                continue
            bundles = [received[client] for client in clients]
            state = cohort.personalised(turn, scaling, range(len(clients)), bundles)
            params = cohort.learner.predicted_by(state)
            cohort.data.forget()
            for i in range(len(clients)):
                yield cohort.personal_model(i, params, turn.round, scaling)

    def answers(self, messages: Sequence[Message]) -> Iterator[Message]:
        """Let the addressed clients work, those asked for the same together."""
        by_kind = defaultdict[str, list[Message]](list)
        for message in messages:
            by_kind[message.metadata.message_type].append(message)
        for kind, asked in by_kind.items():
            if kind == MessageType.QUERY and any(SECURE in one.content for one in asked):
                yield from self._pool.map(self._sum_reply, asked)
                continue
            if self._resizes and kind != MessageType.QUERY:
                said = content_of(asked[0])[exchange.TURN]
                self._begin_round(exchange.read_instructions(said).turn.round)
            yield from self._answers(kind, asked)

    def _sum_reply(self, message: Message) -> Message:
        cohort, i = self._where[message.metadata.dst_node_id]
        return sum_reply(self._people, cohort, i, message)

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
        self._sampled |= kind == MessageType.TRAIN and bool(few)
        held = by_size([cohort.clients[i] for cohort, i in (self._where[node] for node in few)])
        few = [self._node_of[one.client] for one in held]
        groups += [few[part] for part in like_stacks(held, self._size, self._device)]
        tasks = []
        for nodes in groups:
            members = [self._where[node] for node in nodes]
            given = members, [told[node] for node in nodes]
            keep = self._fits and not self._sampled
            task = self._pool.submit(joined_replies, kind, *given, keep, self._people)
            tasks.append((task, members))
        for task, members in tasks:
            answered, joined = task.result()
            if joined is not None and (kind == MessageType.TRAIN or joined.keeps_best):
                give_back(joined, members)
            yield from answered


def resolve_device(device: str) -> str:
    """Return ``cpu`` or ``cuda``; ``auto`` takes a GPU where there is one."""
    if device == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    if device == "cuda" and not torch.cuda.is_available():
        raise RunError("device cuda was asked for, but PyTorch sees no GPU: use cpu or auto")
    return device


def _begin(pool: ThreadPoolExecutor, workers: int) -> None:
    """Begin a worker thread."""
    # One core per thread: OpenMP teams of several threads fight over few cores, NumPy's BLAS's too.
    torch.set_num_threads(1)
    threadpool_limits(1, user_api="blas")
    work_beside(pool, workers)
