"""FedProto, the device half (Tan et al. 2022, algorithm 1)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from fedsub_client.learner import Fitted, Received, State, reported
from fedsub_client.parts.embeddings import embeddings
from fedsub_client.parts.prototype_means import HELD, PrototypeLearner, SummedPrototypeLearner
from fedsub_client.predictor import Predictor
from fedsub_core.data.stacks import Stack
from fedsub_core.method_parts.prototypes import PROTOTYPES
from fedsub_core.models.architecture import Shape
from fedsub_core.models.model import Model, Params
from fedsub_core.models.to_torch import to_torch
from fedsub_core.training import Turn

#: What the predictor goes by beside the model: everybody's class means, and which there are.
MEANS, KNOWN = "nearest.prototypes", "nearest.held"


class FedProtoLearner(PrototypeLearner):
    """A model of its own, whose embeddings are pulled to everybody's class means."""

    def fit(self, state: State, received: Received, data: Stack, turn: Turn) -> Fitted:
        """Train under the pull, send the class means of the new embeddings."""
        state = self.receive(state, received)
        objective = self.loss + self.pull(state)
        params, loss = self.train(self.get(state, "model"), data, turn, objective=objective)
        uploads = self.uploads_with_prototypes(params, data, turn)
        return state | self.put(params, "model"), uploads, reported(training_loss=loss)

    def personal(self, state: State) -> Params:
        """Return the model, and the prototypes where these predict."""
        params = super().personal(state)
        if isinstance(self.predictor, NearestPrototype):
            return params | {MEANS: state[PROTOTYPES], KNOWN: state[HELD].float()}
        return params


class SummedFedProtoLearner(SummedPrototypeLearner, FedProtoLearner):
    """FedProto where the server learns sums alone."""


@dataclass(frozen=True)
class NearestPrototype(Predictor):
    """The class of the nearest prototype, where ``fedproto.predict = nearest``.

    Logits are minus the mean squared distance of the embedding to each prototype; a class without
    one has the smallest of these, minus 1. Who has no prototype at all uses its head.
    """

    computes: ClassVar[str] = (
        f"probabilities = softmax(-mean((h - {MEANS})**2)), h what the last of layers({{seen}}) "
        f"sees; a class of which {KNOWN} is 0 has the smallest of the others, minus 1; without any "
        "the layers' own logits"
    )

    @classmethod
    def of(cls, model: Model, hyper: Any) -> Predictor:
        """Return this predictor, or the model where its head predicts."""
        return cls(model) if hyper.predict == "nearest" else Predictor(model)

    def describe(self) -> dict[str, Any]:
        """Return that prototypes predict."""
        return {"predict": "nearest"}

    @property
    def tensor_shapes(self) -> Mapping[str, Shape]:
        """The model's tensors, ``[classes, d]`` of prototypes, and ``[classes]``."""
        classes, size = self.model.classes, self.model.embedding_size
        return {**self.model.tensor_shapes, MEANS: (classes, size), KNOWN: (classes,)}

    def forward(self, params: Params, x: Tensor) -> Tensor:
        """Return logits ``[clients, samples, classes]``."""
        own = {name: params[name] for name in self.model.tensor_shapes}
        h = embeddings(self.model, own, x).flatten(2)
        near = -torch.cdist(h, params[MEANS]).square() / h.shape[2]
        return chosen(near, self.model.forward(own, x), params[KNOWN])

    def to_torch(self, params: Params) -> nn.Module:
        """Return a module of one client's model and prototypes."""
        return NearestModule(self, params)


class NearestModule(nn.Module):
    """``x [batch, *features]``, standardised, to logits by the nearest prototype.

    Parameters
    ----------
    predictor : of which model.
    params : without a client axis; they are copied.
    """

    means: Tensor
    known: Tensor

    def __init__(self, predictor: NearestPrototype, params: Params) -> None:
        super().__init__()
        body, head = predictor.model.cut()
        self.body, self.head = to_torch(body, params), to_torch(head, params)
        self.register_buffer("means", params[MEANS].clone())
        self.register_buffer("known", params[KNOWN].clone())

    def forward(self, x: Tensor) -> Tensor:
        """Return the logit of every class."""
        h = self.body(x)
        near = -(h.flatten(1).unsqueeze(1) - self.means).square().mean(2)
        return chosen(near[None], self.head(h)[None], self.known[None])[0]


def chosen(near: Tensor, logits: Tensor, known: Tensor) -> Tensor:
    """Return how near prototypes are, of classes without one the least of these minus 1.

    `near` and the head's `logits` [clients, samples, classes], which are returned for whoever has
    no prototype; `known` [clients, classes].
    """
    absent = (known == 0).unsqueeze(1)
    least = near.masked_fill(absent, torch.inf).amin(2, keepdim=True) - 1
    return torch.where(absent.all(2, keepdim=True), logits, near.where(~absent, least))
