"""Local training, the device half: train on, tell nobody."""

from __future__ import annotations

from collections.abc import Sequence

from fedsub_client.learners.base import Learner, State
from fedsub_core.data.stacks import Stack
from fedsub_core.training.loop import train
from fedsub_core.wire.bundles import Download, Upload


class LocalLearner(Learner):
    """Trains its own model every round; uploads only how many samples it has."""

    def receive(self, state: State, downloads: Sequence[Download]) -> State:
        """Nothing ever comes."""
        return state

    def fit(
        self, state: State, downloads: Sequence[Download], data: Stack, round: int
    ) -> tuple[State, list[Upload]]:
        """Train for the round's epochs."""
        trained = train(self.model, self.params(state), data, self.settings, round)
        return state | trained, [Upload(examples=count) for count in data.counts]
