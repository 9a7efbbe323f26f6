"""FedHome, the device half (Wu et al. 2022): FedAvg, then a head of one's own on balanced data."""

from __future__ import annotations

from dataclasses import replace

import torch

from fedsub_client.learner import Fitted, Received, State, reported
from fedsub_client.methods.fedavg import FedAvgLearner
from fedsub_client.oversampling import oversample
from fedsub_client.parts.embeddings import embeddings
from fedsub_core.data.stacks import Stack
from fedsub_core.methods.fedhome import trains_heads
from fedsub_core.training import Turn, train
from fedsub_core.wire.bundles import Bundle

#: 1 for clients whose head is their own, float32 [clients].
AT_HOME = "at_home"


class FedHomeLearner(FedAvgLearner):
    """FedAvg's, and in the last rounds its head alone trains, on embeddings it balances."""

    def check(self) -> None:
        """Refuse a head that the model does not have."""
        self.model.head(self.hyper.head_layers)

    def init(self, clients: int, seed: int) -> State:
        """Return :meth:`Learner.init`'s state, nobody having a head of its own."""
        return super().init(clients, seed) | {AT_HOME: torch.zeros(clients)}

    def receive(self, state: State, received: Received) -> State:
        """Adopt the global model, unless the head is one's own by now."""
        own = state[AT_HOME].tolist()
        taken = [Bundle() if home else one for one, home in zip(received, own, strict=True)]
        return super().receive(state, taken)

    def fit(self, state: State, received: Received, data: Stack, turn: Turn) -> Fitted:
        """Do FedAvg's round; or train the head at home and send nothing."""
        hyper, model = self.hyper, self.model
        if not trains_heads(hyper, turn):
            return super().fit(state, received, data, turn)
        state = self.receive(state, received)
        params = self.get(state, "model")
        made = embeddings(model, params, data.x, hyper.head_layers, data.scale)
        seen = replace(data, x=made, scale=None)
        if hyper.smote:
            seen = oversample(seen, turn.seed, hyper.neighbours, hyper.rare == "drop")
        _, head = model.cut(hyper.head_layers)
        rate = replace(self.settings, lr=self.settings.lr * hyper.head_lr_factor)
        params, loss = train(head, params, seen, turn, rate, objective=self.loss)
        state = state | self.put(params, "model") | {AT_HOME: torch.ones_like(state[AT_HOME])}
        return state, [Bundle(count) for count in data.counts], reported(training_loss=loss)
