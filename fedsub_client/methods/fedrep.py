"""FedRep, the device half (Collins et al. 2021, algorithm 1)."""

from __future__ import annotations

from dataclasses import replace

from fedsub_client.learner import Fitted, Learner, Received, State, reported
from fedsub_core.data.stacks import Stack
from fedsub_core.errors import ConfigError
from fedsub_core.training import Turn


class FedRepLearner(Learner):
    """Trains its own head on the frozen common body, then the body under the frozen head."""

    def check(self) -> None:
        """Refuse a last round in which nothing would be trained."""
        if self.hyper.finetune and not self.hyper.head_epochs:
            raise ConfigError(
                "fedrep: got finetune = true with head-epochs = 0, expected at least one epoch: "
                "the last round trains heads alone"
            )

    def fit(self, state: State, received: Received, data: Stack, turn: Turn) -> Fitted:
        """Do both phases, in the last round the first alone if so configured; send the body."""
        hyper, model = self.hyper, self.model
        params = self.get(self.receive(state, received), "model")
        rate = replace(self.settings, lr=self.settings.lr * hyper.head_lr_factor)
        first = {"phase": "head", "settings": rate, "epochs": hyper.head_epochs}
        params, loss = self.train(params, data, turn, only=model.head(hyper.head_layers), **first)
        if not (hyper.finetune and turn.round == turn.rounds):
            params, loss = self.train(params, data, turn, only=model.body(hyper.head_layers))
        state = state | self.put(params, "model")
        return state, self.uploads(params, data), reported(training_loss=loss)
