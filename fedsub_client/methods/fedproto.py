"""FedProto, the device half (Tan et al. 2022, algorithm 1)."""

from __future__ import annotations

import torch
from torch import Tensor

from fedsub_client.learner import Fitted, Received, State, reported
from fedsub_client.parts.embeddings import embeddings
from fedsub_client.parts.prototype_means import HELD, PrototypeLearner
from fedsub_core.data.stacks import Stack
from fedsub_core.methods.prototypes import PROTOTYPES
from fedsub_core.training import Turn


class FedProtoLearner(PrototypeLearner):
    """A model of its own, whose embeddings are pulled to everybody's class means."""

    def fit(self, state: State, received: Received, data: Stack, turn: Turn) -> Fitted:
        """Train under the pull, send the class means of the new embeddings."""
        state = self.receive(state, received)
        objective = self.loss + self.pull(state)
        params, loss = self.train(self.get(state, "model"), data, turn, objective=objective)
        uploads = self.uploads_with_prototypes(params, data, turn)
        return state | self.put(params, "model"), uploads, reported(training_loss=loss)

    def predict(self, state: State, x: Tensor) -> Tensor:
        """Return logits ``[clients, samples, classes]``: the head's, or how near prototypes are.

        `nearest`: minus the mean squared distance of the embedding to each prototype; a class
        without one has the smallest of these, minus 1. Who has no prototype at all uses its head.
        """
        logits = super().predict(state, x)
        if self.hyper.predict == "head":
            return logits
        h, held = embeddings(self.model, self.personal(state), x).flatten(2), state[HELD]
        near = -torch.cdist(h, state[PROTOTYPES]).square() / h.shape[2]
        absent = ~held.unsqueeze(1)
        least = near.masked_fill(absent, torch.inf).amin(2, keepdim=True) - 1
        return torch.where(held.any(1)[:, None, None], near.where(~absent, least), logits)

    def not_kept(self) -> str:
        """Return that `nearest` goes by everybody's prototypes, which are no part of the model."""
        nearest = self.hyper.predict == "nearest"
        return "the prototypes of fedproto.predict=nearest" if nearest else ""
