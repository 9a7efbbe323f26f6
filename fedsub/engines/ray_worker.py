"""What runs in the processes of Ray's workers: a CohortGrid of some clients, and work on it."""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

import torch
from flwr.app import Message, MessageType

from fedsub.engines.cohort_grid import CohortGrid
from fedsub.engines.held_uploads import HoldingGrid
from fedsub.engines.ray_cluster import check_version
from fedsub_client.learner import State
from fedsub_client.personal_model import PersonalModel
from fedsub_client.split_client import SplitClient
from fedsub_core.config.halves import DeviceSettings
from fedsub_core.data.federation import Card
from fedsub_core.data.standardise import Scaling
from fedsub_core.packages import build_with
from fedsub_core.turn import Turn
from fedsub_core.wire.bundles import Bundle

States = dict[str, State]
Given = TypeVar("Given")
#: What a worker is asked: a function of its grid.
Work = Callable[[CohortGrid], Given]


class Worker:
    """What runs in a worker's process: a CohortGrid of some clients, in one thread."""

    def __init__(
        self,
        version: str,
        settings: DeviceSettings,
        card: Card,
        clients: Sequence[SplitClient],
        nodes: Sequence[int],
        kept: States | None,
        holds: bool,
    ) -> None:
        # It may have joined after the others.
        check_version("this one", build_with(settings.method), version)
        torch.set_num_threads(1)
        grid = HoldingGrid if holds else CohortGrid
        self.grid = grid(settings, card, clients, "cpu", 1, nodes)
        if kept:
            self.grid.load_state(kept)

    def do(self, work: Work[Given]) -> Given:
        """Return the result of `work` on the grid."""
        return work(self.grid)


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
            lies = hashlib.sha256(tensor.contiguous().numpy().tobytes()).digest()
        key = lies, tensor.shape, tensor.stride(), tensor.dtype
        return copies[key] if key in copies else copies.setdefault(key, tensor.clone())

    return {client: {n: copied(t) for n, t in own.items()} for client, own in states.items()}


def stacks(grid: CohortGrid, turn: Turn) -> list[list[str]]:
    """Return the clients of each stack in a round."""
    return grid.stacks(turn.round)


def models(
    grid: CohortGrid, turn: Turn, scaling: Scaling | None, received: Mapping[str, Bundle]
) -> list[PersonalModel]:
    """Return the models of the clients that `received` something."""
    return list(grid.personal_models(turn, scaling, received))
