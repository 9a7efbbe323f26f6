"""A person's models: how the fused one, one alone and the own head train, and what is sent of them.

Which of them to believe is the gate's matter (:mod:`fedsub_client.methods.fedsub_gated.gate`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from fedsub_client.learner import State
from fedsub_client.methods.fedsub.learner import FedSubLearner
from fedsub_client.methods.fedsub.subnetworks import Masks
from fedsub_client.methods.fedsub_gated.mixture import Mixture
from fedsub_core.data.stacks import Stack
from fedsub_core.methods.fedsub import SHARES
from fedsub_core.methods.fedsub_gated_experts import FUSED, HEAD, HEAD_EPOCHS, LOCAL, names
from fedsub_core.models.model import Params
from fedsub_core.training import Pull
from fedsub_core.turn import Turn

#: The people's weights of the experts [experts], as the server last sent them; 0: dropped.
COMMON_WEIGHTS = "gate.common"
#: So low a bias takes a class out of the softmax: its probability is exactly 0.
NEVER = -1e9
#: Smallest number that is divided by.
LEAST = 1e-30
#: Weight of the head's pull to the fused model's, chosen with :data:`HEAD_EPOCHS`.
HEAD_PULL = 0.002


class ExpertsLearner(FedSubLearner):
    """Trains a model for each expert that has one beside FedSub's, which it is sent."""

    predictor: Mixture

    def train_restricted(
        self, params: Params, held: Tensor, data: Stack, turn: Turn, **how: Any
    ) -> tuple[Params, Tensor]:
        """Train, with classes that a person lacks out of the softmax: nothing pushes them down."""
        bias = f"{self.model.affine[-1].name}.bias"
        without = params | {bias: params[bias].masked_fill(~held, NEVER)}
        new, loss = self.train(without, data, turn, **how)
        return new | {bias: torch.where(held, new[bias], params[bias])}, loss

    def train_alone(self, state: State, data: Stack, turn: Turn) -> State:
        """Train the local expert of those for whom it was not dropped."""
        places = self.believers(state, LOCAL)
        if not places:
            return {}
        before = self.get(state, LOCAL)
        if len(places) == len(data.clients):
            return self.put(self.train(before, data, turn)[0], LOCAL)
        some = {name: tensor[places] for name, tensor in before.items()}
        new, _ = self.train(some, data.select(places), turn)
        rows = torch.tensor(places, device=data.x.device)
        return self.put({n: t.index_copy(0, rows, new[n]) for n, t in before.items()}, LOCAL)

    def train_head(self, state: State, held: Tensor, data: Stack, turn: Turn) -> State:
        """Train the person's own head, with a pull to the common one, until it is dropped.

        The body is as it was received. The head's rows of classes that the person lacks are the
        fused model's: a class that comes is known.
        """
        if not self.believers(state, HEAD):
            return {}
        before, fused = self.predictor.head_of(state, HEAD), self.get(state, FUSED)
        anchor = {key: fused[key] for key in before}
        new, _ = self.train_restricted(
            fused | before, held, data, turn, only=self.model.head(), phase="head",
            epochs=HEAD_EPOCHS, objective=self.loss + Pull(anchor, HEAD_PULL),
        )  # fmt: skip
        rows = {k: torch.where(_rows(held, new[k]), new[k], fused[k]) for k in before}
        return self.put(rows, HEAD)

    def believers(self, state: State, name: str) -> list[int]:
        """Return the places of the people for whom an expert was not dropped."""
        weights = state[COMMON_WEIGHTS][:, names(self.hyper).index(name)]
        return [place for place, weight in enumerate(weights.tolist()) if weight > 0]

    def masks(self, relevance: Mapping[str, Tensor], held: Tensor) -> Masks:
        """Return the units of each class: all hidden ones, and its own output."""
        *hidden, last = self.model.affine
        units = held.unsqueeze(2)
        masks = {layer.name: units.expand(*held.shape, layer.units) for layer in hidden}
        own = torch.eye(self.model.classes, dtype=torch.bool, device=held.device)
        return masks | {last.name: own & units}

    def further(self, relevance: Mapping[str, Tensor], masks: Masks) -> dict[str, Tensor]:
        """Return each class's share in every hidden unit's relevance.

        A unit that matters for no class is all classes' alike.
        """
        hidden = [layer.name for layer in self.model.affine[:-1]]
        return {name + SHARES: _shares(relevance[name], masks[name]) for name in hidden}


def _rows(held: Tensor, like: Tensor) -> Tensor:
    """Return `held` [clients, classes] in the shape of a tensor with a row for each class."""
    return held.view(*held.shape, *[1] * (like.ndim - 2))


def _shares(relevance: Tensor, mask: Tensor) -> Tensor:
    """Return each class's share in a unit's relevance, of `mask` [clients, classes, units]."""
    kept = relevance.clamp(min=0) * mask
    kept = torch.where(kept.sum(1, keepdim=True) > 0, kept, mask.to(kept.dtype))
    return kept / kept.sum(1, keepdim=True).clamp(min=LEAST)
