"""ProtoHAR, the device half (Cheng et al. 2023, algorithm 1)."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from fedsub_client.learner import Fitted, Received, State, reported
from fedsub_client.parts.embeddings import embeddings
from fedsub_client.parts.prototype_means import PrototypeLearner, SummedPrototypeLearner
from fedsub_core.data.stacks import Stack
from fedsub_core.models.model import Params
from fedsub_core.seeds import generator
from fedsub_core.training import Turn


class ProtoHARLearner(PrototypeLearner):
    """FedRep's two phases; in the second, embeddings are pulled to everybody's class means."""

    def fit(self, state: State, received: Received, data: Stack, turn: Turn) -> Fitted:
        """Train its own head, then the body under the pull; send body and class means."""
        state, hyper = self.receive(state, received), self.hyper
        head, body = self.model.head(hyper.head_layers), self.model.body(hyper.head_layers)
        rate = replace(self.settings, lr=self.settings.lr * hyper.head_lr_factor)
        first = {"phase": "head", "settings": rate, "epochs": hyper.head_epochs}
        params, _ = self.train(self.get(state, "model"), data, turn, only=head, **first)
        pulled = self.loss + self.pull(state)
        params, loss = self.train(params, data, turn, only=body, objective=pulled)
        uploads = self.uploads_with_prototypes(params, data, turn)
        return state | self.put(params, "model"), uploads, reported(training_loss=loss)

    def class_means(self, params: Params, data: Stack, turn: Turn) -> tuple[Tensor, Tensor]:
        """Return the prototypes, ``[clients, classes, d]``, and each class's samples.

        As the public code has it (``variant = repo``): the embedding of the class's first sample in
        the body's first epoch, divided by the class's samples.
        """
        means, counts = super().class_means(params, data, turn)
        if self.hyper.variant == "paper":
            return means, counts
        found = embeddings(self.model, params, data.x, scale=data.scale).flatten(2)
        for i, (client, count) in enumerate(zip(data.clients, data.counts, strict=True)):
            own = generator(turn.seed, client, turn.round, "batches of epoch 0")
            order = torch.randperm(count, generator=own).to(found.device)
            for y in counts[i].nonzero().flatten().tolist():
                first = order[(data.y[i, order] == y).nonzero()[0, 0]]
                means[i, y] = found[i, first] / counts[i, y]
        return means, counts


class SummedProtoHARLearner(SummedPrototypeLearner, ProtoHARLearner):
    """ProtoHAR where the server learns sums alone."""
