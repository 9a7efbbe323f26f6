"""RayGrid: a federation on the workers of a Ray cluster that runs already.

Each worker holds some clients, their data and a CohortGrid of them; messages go there and replies
come back pickled, with what the clients keep. A worker that dies is replaced by one that goes
on from there with the same messages: the numbers are those of one machine, bit for bit.
"""

import logging
import pickle
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import islice
from typing import Any

from flwr.app import Message

from fedsub.engines import ray_worker as work_of
from fedsub.engines.held_uploads import trained_round
from fedsub.engines.in_process_grid import SimulationGrid, check_clients
from fedsub.engines.ray_cluster import failure, in_short
from fedsub.engines.ray_states import KeptStates
from fedsub.engines.ray_sums import RaySums
from fedsub.engines.ray_worker import Given, States, Work, Worker, packed
from fedsub.engines.stacks import by_size, like_stacks, stack_size
from fedsub_client.learner import State
from fedsub_client.personal_model import PersonalModel
from fedsub_client.split_client import SplitClient
from fedsub_core.config.halves import DeviceSettings
from fedsub_core.data.federation import Card
from fedsub_core.data.standardise import Scaling
from fedsub_core.errors import RunError, cut
from fedsub_core.packages import build_with
from fedsub_core.turn import Turn
from fedsub_core.wire.bundles import Bundle
from strategies.rounds.on_disk import PORTION

log = logging.getLogger("fedsub")
#: So often a worker is started for one message; clients that take theirs with them would else go
#: on for ever.
ATTEMPTS = 3
#: So many workers start at once: while it starts, a block of its people is in the memory here.
STARTED = 8
#: So many stacks' uploads or models leave a worker together.
STACKS = 8


class RayGrid(SimulationGrid):
    """A federation on as many workers as the cluster has CPUs.

    Parameters
    ----------
    ray : the module, connected (:func:`fedsub.engines.ray_cluster.cluster`).
    settings : what the configuration says to the device half of the method.
    card, clients : the federation, split.
    holds : whether uploads stay with the workers, which add them up (:func:`.adds_up`).

    Raises RunError if the cluster has no CPU.
    """

    #: What many are sent alike goes to a worker once.
    by_reference = True

    def __init__(
        self,
        ray: Any,
        settings: DeviceSettings,
        card: Card,
        clients: Sequence[SplitClient],
        holds: bool = False,
    ) -> None:
        super().__init__(range(1, len(clients) + 1))
        self._ray, self._of, self._holds = ray, (settings, card), holds
        people = by_size(clients)
        workers = min(len(self._places()), len(people))
        self._clients = [people[w::workers] for w in range(workers)]
        self._shares: list[list[int]] = [[] for _ in range(workers)]
        self._where, self._part = dict[int, int](), dict[int, int]()
        nodes = iter(self._nodes)
        # Nodes follow stacks, so that each part of a round is of whole stacks of all workers.
        every = [like_stacks(c, stack_size(len(c), "cpu", 1), "cpu") for c in self._clients]
        for k in range(max(map(len, every))):
            for w, own in enumerate(every):
                for node in islice(nodes, len(self._clients[w][own[k]]) if k < len(own) else 0):
                    self._shares[w].append(node)
                    self._where[node], self._part[node] = w, k // STACKS
        worker_of = {one.client: w for w, own in enumerate(self._clients) for one in own}
        self._sums = RaySums(self._ask, worker_of)
        self._kept = KeptStates(workers)
        self._begin(0)
        with ThreadPoolExecutor(STARTED) as pool:
            self._workers = list(pool.map(self._start, range(workers)))
        for w, kept in self._ask(dict.fromkeys(range(workers), work_of.first)).items():
            self._kept.put(w, kept)

    def stack_of(self, node: int) -> int:
        """Return the part of a round that a client is in: some stacks of each worker."""
        return self._part[node]

    def close(self) -> None:
        """End the workers."""
        for worker in self._workers:
            self._ray.kill(worker)

    def state(self) -> States:
        """Return every client's state, ``client/<id>`` to named tensors without a client axis."""
        return {client: own for kept in self._kept.of for client, own in kept.items()}

    def load_state(self, state: Mapping[str, State]) -> None:
        """Inverse of :meth:`state`."""
        for w, clients in enumerate(self._clients):
            check_clients(state, clients)
            self._kept.put(w, {n: dict(state[n]) for n in (f"client/{c.client}" for c in clients)})
        self._begin(0)
        self._ask({w: partial(work_of.load, state=own) for w, own in enumerate(self._kept.of)})

    def answers(self, messages: Sequence[Message]) -> Iterator[Message]:
        """Let the addressed clients work, all workers at once."""
        by_worker = defaultdict[int, list[Message]](list)
        for message in messages:
            by_worker[self._where[message.metadata.dst_node_id]].append(message)
        if (round := trained_round(messages)) not in (0, self._round):
            self._begin(round)
        found = self._ask({w: partial(work_of.answers, messages=of) for w, of in by_worker.items()})
        for w, (replies, kept) in found.items():
            self._kept.keep(w, kept)
            if self._holds and kept:
                self._trained[w].append(by_worker[w])
            self._sums.take(w, replies)
            yield from replies

    def _begin(self, round: int) -> None:
        """Note what clients keep before a round: a lost worker's train it again from there."""
        self._round = round
        #: What each worker's clients kept before the round, and the messages that they trained by.
        self._before = [dict(kept) if self._holds else {} for kept in self._kept.of]
        self._trained: list[list[Sequence[Message]]] = [[] for _ in self._kept.of]
        self._sums.begin()

    def personal_models(
        self, turn: Turn, scaling: Scaling | None, received: Mapping[str, Bundle]
    ) -> Iterator[PersonalModel]:
        """Yield every client's model as it is evaluated after what it `received`.

        Workers send a few stacks' at a time: all at once would not fit into the memory here.
        """
        stacks = self._ask(
            dict.fromkeys(range(len(self._clients)), partial(work_of.stacks, turn=turn))
        )
        for begin in range(0, max(map(len, stacks.values())), STACKS):
            asked: dict[int, Work[list[PersonalModel]]] = {}
            for w, own in stacks.items():
                people = {c: received[c] for some in own[begin : begin + STACKS] for c in some}
                if people:
                    asked[w] = partial(work_of.models, turn=turn, scaling=scaling, received=people)
            for models in self._ask(asked).values():
                yield from models

    def _ask(self, work: Mapping[int, Work[Given]]) -> dict[int, Given]:
        """Let workers work; replace those that die, and let them work again."""
        ray, todo = self._ray, dict(work)
        found: dict[int, Given] = {}
        losses: Counter[int] = Counter()
        while todo:
            asked = {w: self._workers[w].do.remote(packed(one)) for w, one in todo.items()}
            for w, answer in asked.items():
                try:
                    found[w] = pickle.loads(ray.get(answer))
                    del todo[w]
                except ray.exceptions.RayTaskError as error:
                    raise failure(error) from error
                except ray.exceptions.RayError as error:
                    losses[w] += 1
                    if losses[w] == ATTEMPTS:
                        people = cut(", ".join(c.client for c in self._clients[w]))
                        raise RunError(
                            f"the worker of clients {people} was lost {ATTEMPTS} times, at last: "
                            f"{in_short(error)}. Finished rounds are kept: the run can be resumed"
                        ) from error
                    log.warning("a worker was lost and is replaced: %s", type(error).__name__)
                    self._workers[w] = self._start(w)
        return found

    def _start(self, w: int) -> Any:
        """Start the `w`-th worker somewhere, whose clients keep what they kept.

        Where uploads were lost with it, its clients train what they trained of the round again.
        """
        kept = self._before[w] if self._trained[w] else self._kept.of[w]
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        places = self._places()
        # No CPU is asked for: where a node is lost, the others take its workers, too.
        there = NodeAffinitySchedulingStrategy(places[w % len(places)], soft=True)
        worker = self._ray.remote(num_cpus=0, max_restarts=0, scheduling_strategy=there)(Worker)
        method = self._of[0].method
        started = worker.remote()
        self._wait_for(started.check.remote(build_with(method), method))
        for block in work_of.in_blocks(self._clients[w], PORTION):
            self._wait_for(started.take.remote(block))
        given = packed((*self._of, self._shares[w], kept, self._holds))
        self._wait_for(started.begin.remote(given))
        for messages in self._trained[w]:
            work = packed(partial(work_of.answers, messages=messages))
            self._wait_for(started.do.remote(work))
        return started

    def _wait_for(self, started: Any) -> None:
        """Wait for a step of a worker's start; one that dies in it is found lost when it is asked.

        Raises RunError for what fails there.
        """
        try:
            self._ray.get(started)
        except self._ray.exceptions.RayTaskError as error:
            raise failure(error) from error
        except self._ray.exceptions.RayError:
            pass

    def _places(self) -> list[str]:
        """Return the node of every CPU of the cluster, anew: nodes come and go."""
        alive = [node for node in self._ray.nodes() if node["Alive"]]
        places = [n["NodeID"] for n in alive for _ in range(int(n["Resources"].get("CPU", 0)))]
        if not places:
            raise RunError(
                "the Ray cluster has no CPU left. Start nodes (`ray start`), then go on with "
                "`fedsub run --resume`: finished rounds are kept"
            )
        return sorted(places)
