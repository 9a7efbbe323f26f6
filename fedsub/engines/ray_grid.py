"""RayGrid: a federation on the workers of a Ray cluster that runs already.

Each worker holds some clients, their data and a CohortGrid of them; messages go there and replies
come back pickled, with what the clients keep. A worker that dies is replaced by one that goes
on from there with the same messages: the numbers are those of one machine, bit for bit.
"""

from __future__ import annotations

import logging
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, TypeVar

import torch
from flwr.app import Message, MessageType

from fedsub.engines.cohort_grid import CohortGrid
from fedsub.engines.in_process_grid import SimulationGrid, by_size, check_clients
from fedsub.engines.ray_cluster import check_version, in_short
from fedsub_client.learner import State
from fedsub_client.personal_model import PersonalModel
from fedsub_client.split_client import SplitClient
from fedsub_core.config.halves import DeviceSettings
from fedsub_core.data.federation import Card
from fedsub_core.data.standardise import Scaling
from fedsub_core.errors import RunError
from fedsub_core.packages import build_with
from fedsub_core.turn import Turn
from fedsub_core.wire.bundles import Bundle

log = logging.getLogger("fedsub")
#: So often a worker is started for one message; clients that take theirs with them would else go
#: on for ever.
ATTEMPTS = 3
#: So many stacks' models leave a worker together.
STACKS = 8
States = dict[str, State]
Given = TypeVar("Given")
#: What a worker is asked: a function of its grid.
Work = Callable[[CohortGrid], Given]


class RayGrid(SimulationGrid):
    """A federation on as many workers as the cluster has CPUs.

    Parameters
    ----------
    ray : the module, connected (:func:`fedsub.engines.ray_cluster.cluster`).
    settings : what the configuration says to the device half of the method.
    card, clients : the federation, split.

    Raises
    ------
    RunError
        If the cluster has no CPU.
    """

    #: What many are sent alike goes to a worker once.
    by_reference = True

    def __init__(
        self, ray: Any, settings: DeviceSettings, card: Card, clients: Sequence[SplitClient]
    ) -> None:
        super().__init__(range(1, len(clients) + 1))
        self._ray, self._of = ray, (settings, card)
        people = by_size(clients)
        workers = min(len(self._places()), len(people))
        self._clients = [people[w::workers] for w in range(workers)]
        self._shares = [self._nodes[w::workers] for w in range(workers)]
        self._where = {node: w for w, nodes in enumerate(self._shares) for node in nodes}
        self._workers = [self._start(w, None) for w in range(workers)]
        #: What each worker's clients keep, as of its last reply.
        self._kept: list[States] = [{} for _ in self._workers]
        found = self._ask(dict.fromkeys(range(workers), CohortGrid.state))
        self._kept = [found[w] for w in range(workers)]

    def close(self) -> None:
        """End the workers."""
        for worker in self._workers:
            self._ray.kill(worker)

    def state(self) -> States:
        """Return every client's state, ``client/<id>`` to named tensors without a client axis."""
        return {client: own for kept in self._kept for client, own in kept.items()}

    def load_state(self, state: Mapping[str, State]) -> None:
        """Inverse of :meth:`state`."""
        for w, clients in enumerate(self._clients):
            check_clients(state, clients)
            self._kept[w] = {n: dict(state[n]) for n in (f"client/{c.client}" for c in clients)}
        self._ask({w: partial(_load, state=kept) for w, kept in enumerate(self._kept)})

    def answers(self, messages: Sequence[Message]) -> Iterator[Message]:
        """Let the addressed clients work, all workers at once."""
        by_worker = defaultdict[int, list[Message]](list)
        for message in messages:
            by_worker[self._where[message.metadata.dst_node_id]].append(message)
        found = self._ask({w: partial(_answers, messages=of) for w, of in by_worker.items()})
        for w, (replies, kept) in found.items():
            self._kept[w] |= kept
            yield from replies

    def personal_models(
        self, turn: Turn, scaling: Scaling | None, received: Mapping[str, Bundle]
    ) -> Iterator[PersonalModel]:
        """Yield every client's model as it is evaluated after what it `received`.

        Workers send a few stacks' at a time: all at once would not fit into the memory here.
        """
        stacks = self._ask(dict.fromkeys(range(len(self._clients)), partial(_stacks, turn=turn)))
        for begin in range(0, max(map(len, stacks.values())), STACKS):
            asked: dict[int, Work[list[PersonalModel]]] = {}
            for w, own in stacks.items():
                people = {c: received[c] for some in own[begin : begin + STACKS] for c in some}
                if people:
                    asked[w] = partial(_models, turn=turn, scaling=scaling, received=people)
            for models in self._ask(asked).values():
                yield from models

    def _ask(self, work: Mapping[int, Work[Given]]) -> dict[int, Given]:
        """Let workers work; replace those that die, and let them work again."""
        ray, todo = self._ray, dict(work)
        found: dict[int, Given] = {}
        losses: Counter[int] = Counter()
        while todo:
            asked = {w: self._workers[w].do.remote(one) for w, one in todo.items()}
            for w, answer in asked.items():
                try:
                    found[w] = ray.get(answer)
                    del todo[w]
                except ray.exceptions.RayTaskError as error:
                    cause = error.cause if isinstance(error.cause, RunError) else None
                    raise cause or RunError(f"a worker failed: {in_short(error)}") from error
                except ray.exceptions.RayError as error:
                    losses[w] += 1
                    if losses[w] == ATTEMPTS:
                        people = ", ".join(c.client for c in self._clients[w])
                        raise RunError(
                            f"the worker of clients {people} was lost {ATTEMPTS} times, at last: "
                            f"{in_short(error)}. Finished rounds are kept: the run can be resumed"
                        ) from error
                    log.warning("a worker was lost and is replaced: %s", type(error).__name__)
                    self._workers[w] = self._start(w, self._kept[w])
        return found

    def _start(self, w: int, kept: States | None) -> Any:
        """Start the `w`-th worker somewhere, whose clients keep what they kept."""
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        places = self._places()
        # No CPU is asked for: where a node is lost, the others take its workers, too.
        there = NodeAffinitySchedulingStrategy(places[w % len(places)], soft=True)
        worker = self._ray.remote(num_cpus=0, max_restarts=0, scheduling_strategy=there)(_Worker)
        return worker.remote(
            build_with(self._of[0].method), *self._of, self._clients[w], self._shares[w], kept
        )

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


class _Worker:
    """What runs in a worker's process: a CohortGrid of some clients, in one thread."""

    def __init__(
        self,
        version: str,
        settings: DeviceSettings,
        card: Card,
        clients: Sequence[SplitClient],
        nodes: Sequence[int],
        kept: States | None,
    ) -> None:
        # It may have joined after the others.
        check_version("this one", build_with(settings.method), version)
        torch.set_num_threads(1)
        self.grid = CohortGrid(settings, card, clients, "cpu", 1, nodes)
        if kept:
            self.grid.load_state(kept)

    def do(self, work: Work[Given]) -> Given:
        """Return the result of `work` on the grid."""
        return work(self.grid)


def _load(grid: CohortGrid, state: States) -> None:
    grid.load_state(state)


def _answers(grid: CohortGrid, messages: Sequence[Message]) -> tuple[list[Message], States]:
    """Return the replies, and what clients keep if they may keep something else now."""
    replies = list(grid.answers(messages))
    trained = any(m.metadata.message_type == MessageType.TRAIN for m in messages)
    keeps = trained or any(cohort.keeps_best for cohort in grid.cohorts)
    return replies, alone(grid.state()) if keeps else {}


def alone(states: States) -> States:
    """Return copies of states: of a tensor that is a part of a stack, all of that would be sent.

    What lies at one place for several people is copied, sent and kept once.
    """
    copies: dict[tuple[object, ...], torch.Tensor] = {}

    def copied(tensor: torch.Tensor) -> torch.Tensor:
        lies = tensor.data_ptr(), tensor.shape, tensor.stride(), tensor.dtype
        return copies[lies] if lies in copies else copies.setdefault(lies, tensor.clone())

    return {client: {n: copied(t) for n, t in own.items()} for client, own in states.items()}


def _stacks(grid: CohortGrid, turn: Turn) -> list[list[str]]:
    return grid.stacks(turn.round)


def _models(
    grid: CohortGrid, turn: Turn, scaling: Scaling | None, received: Mapping[str, Bundle]
) -> list[PersonalModel]:
    return list(grid.personal_models(turn, scaling, received))
