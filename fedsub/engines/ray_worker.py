"""What runs in the processes of Ray's workers: a CohortGrid of some clients, and work on it."""

import hashlib
import pickle
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from socket import gethostname
from typing import TypeVar

import torch
from flwr.app import Message, MessageType

from fedsub.engines.cohort_grid import CohortGrid
from fedsub.engines.held_uploads import HoldingGrid, on_node
from fedsub.engines.ray_cluster import check_version
from fedsub_client.learner import State
from fedsub_client.personal_model import PersonalModel
from fedsub_client.split_client import SplitClient
from fedsub_core.data.feature_store import FeatureStore
from fedsub_core.data.samples import Samples
from fedsub_core.data.standardise import Scaling
from fedsub_core.errors import DataError
from fedsub_core.mapped_file import release
from fedsub_core.packages import build_with
from fedsub_core.turn import Turn
from fedsub_core.wire.bundles import Bundle

States = dict[str, State]
Given = TypeVar("Given")
#: What a worker is asked: a function of its grid.
Work = Callable[[CohortGrid], Given]


class Worker:
    """What runs in a worker's process: a CohortGrid of some clients, in one thread."""

    grid: CohortGrid

    def __init__(self) -> None:
        torch.set_num_threads(1)
        self._clients, self._store = list[SplitClient](), FeatureStore()

    def check(self, version: str, method: str) -> None:
        """Raise RunError if this node, which may have joined later, has another fedsub."""
        check_version(gethostname(), build_with(method), version)

    def take(self, block: bytes) -> None:
        """Take the clients of a block and their samples; those of many lie in a file.

        Raises RunError if they cannot be written. It names the node and the folder.
        """
        clients, samples = pickle.loads(block)
        self._clients += clients
        try:
            for x in samples:
                self._store.put(x)
        except DataError as error:
            raise on_node(error) from error

    def begin(self, given: bytes) -> None:
        """Let the clients that were taken begin, or go on with what they kept.

        `given`: settings, card, the clients' nodes, states, and whether uploads stay here.
        """
        settings, card, nodes, kept, holds = pickle.loads(given)
        both = zip(self._clients, self._store.arrays(), strict=True)
        clients = [replace(one, x=x) for one, x in both]
        grid = HoldingGrid if holds else CohortGrid
        self.grid = grid(settings, card, clients, "cpu", 1, nodes)
        if kept:
            self.grid.load_state(kept)

    def do(self, work: bytes) -> bytes:
        """Return the result of :data:`Work` on the grid; both are :func:`packed`."""
        return packed(pickle.loads(work)(self.grid))


def packed(value: object) -> bytes:
    """Return a value as bytes, for `pickle.loads`.

    What Ray unpickles lies in its memory for as long as anybody holds one array of it. That memory
    is small, and while it is full everybody waits.
    """
    from ray import cloudpickle

    dumps: Callable[[object], bytes] = cloudpickle.dumps
    return dumps(value)


def in_blocks(clients: Sequence[SplitClient], most: int) -> Iterator[bytes]:
    """Yield clients without samples and the samples of each, of some `most` bytes at a time."""
    some, samples, size = list[SplitClient](), list[Samples](), 0
    for one in clients:
        some.append(replace(one, x=one.x[:0].copy()))
        samples.append(one.x)
        size += one.x.nbytes
        if size >= most:
            yield packed((some, samples))
            for x in samples:
                release(x)
            some, samples, size = [], [], 0
    yield packed((some, samples))


def load(grid: CohortGrid, state: States) -> None:
    """Let clients keep these states."""
    grid.load_state(state)


def answers(grid: CohortGrid, messages: Sequence[Message]) -> tuple[list[Message], States]:
    """Return the replies, and what clients keep if they may keep something else now."""
    replies = list(grid.answers(messages))
    trained = any(m.metadata.message_type == MessageType.TRAIN for m in messages)
    if not trained and not any(cohort.keeps_best for cohort in grid.cohorts):
        return replies, {}
    return replies, alone(grid.state_of(m.metadata.dst_node_id for m in messages))


def first(grid: CohortGrid) -> States:
    """Return the states of clients before the first round, in which many begin alike."""
    return alone(grid.state(), by_content=True)


def alone(states: States, by_content: bool = False) -> States:
    """Return copies of states: of a tensor that is a part of a stack, all of that would be sent.

    What lies at one place for several people is copied, sent and kept once; by content also what
    lies at several.
    """
    copies: dict[object, torch.Tensor] = {}

    def copied(tensor: torch.Tensor) -> torch.Tensor:
        lies: object = tensor.data_ptr()
        if by_content:
            lies = content(tensor)
        key = lies, tensor.shape, tensor.stride(), tensor.dtype
        return copies[key] if key in copies else copies.setdefault(key, tensor.clone())

    return {client: {n: copied(t) for n, t in own.items()} for client, own in states.items()}


def content(tensor: torch.Tensor) -> bytes:
    """Return a digest of a tensor: its numbers, type and shape."""
    kind = f"{tensor.dtype} {tuple(tensor.shape)} ".encode()
    return hashlib.sha256(kind + tensor.contiguous().numpy().tobytes()).digest()


def stacks(grid: CohortGrid, turn: Turn) -> list[list[str]]:
    """Return the clients of each stack in a round."""
    return grid.stacks(turn.round)


def models(
    grid: CohortGrid, turn: Turn, scaling: Scaling | None, received: Mapping[str, Bundle]
) -> list[PersonalModel]:
    """Return the models of the clients that `received` something; what is alike is sent once."""
    once: dict[bytes, torch.Tensor] = {}
    return [
        replace(one, params={n: once.setdefault(content(t), t) for n, t in one.params.items()})
        for one in grid.personal_models(turn, scaling, received)
    ]
