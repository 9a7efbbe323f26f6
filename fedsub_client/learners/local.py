"""Local training, the device half: train on, tell nobody."""

from __future__ import annotations

from collections.abc import Sequence

from fedsub_client.learners.base import Learner, State
from fedsub_core.messages import Download, Upload
from fedsub_core.stacks import Stack
from fedsub_core.training import train


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
