"""A person's models, and how they are trained: fused, alone, pulled, a head on the fused body.

Which of them to believe is the gate's matter (:mod:`fedsub_client.methods.fedsub_gated.gate`).
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from fedsub_client.learner import State
from fedsub_client.methods.fedsub.learner import FedSubLearner
from fedsub_client.methods.fedsub_gated.mixture import Mixture
from fedsub_core.data.stacks import Stack
from fedsub_core.methods.fedsub_gated_experts import FUSED, HEAD, LOCAL, PULLED, STRONG, names
from fedsub_core.models.model import Params
from fedsub_core.training import Pull
from fedsub_core.turn import Turn

#: The people's weights of the experts [experts], as the server last sent them; 0: dropped.
COMMON_WEIGHTS = "gate.common"
#: So low a bias takes a class out of the softmax: its probability is exactly 0.
NEVER = -1e9


class ExpertsLearner(FedSubLearner):
    """Trains a model for each expert that has one beside FedSub's, which it is sent."""

    predictor: Mixture

    @property
    def shares_outputs(self) -> bool:
        """Whether the output layer is collaborated on."""
        return self.hyper.depth in (0, len(self.model.affine))

    @property
    def _restricted(self) -> bool:
        """Whether training leaves lacking classes' outputs as they are: as others sent them."""
        return bool(self.hyper.restricted) and self.shares_outputs

    def train_restricted(
        self, params: Params, held: Tensor, data: Stack, turn: Turn, **how: Any
    ) -> tuple[Params, Tensor]:
        """Train, with classes that a person lacks out of the softmax: nothing pushes them down."""
        if not self._restricted:
            return self.train(params, data, turn, **how)
        bias = f"{self.model.affine[-1].name}.bias"
        without = params | {bias: params[bias].masked_fill(~held, NEVER)}
        new, loss = self.train(without, data, turn, **how)
        return new | {bias: torch.where(held, new[bias], params[bias])}, loss

    def train_expert(self, state: State, name: str, data: Stack, turn: Turn) -> State:
        """Train alone, or pulled to the fused model as it was received; not who was dropped."""
        pulls = {LOCAL: 0.0, PULLED: self.hyper.pull, STRONG: self.hyper.strong_pull}
        going_on = self.going_on(state, name)
        if not going_on:
            return {}
        before, anchor = self.get(state, name), self.get(state, FUSED)
        if len(going_on) < len(data.clients):
            own = {n: t[going_on] for n, t in before.items()}
            anchor, data = {n: t[going_on] for n, t in anchor.items()}, data.select(going_on)
        else:
            own = before
        new, _ = self.train(own, data, turn, objective=self.loss + Pull(anchor, pulls[name]))
        rows = torch.tensor(going_on, device=data.x.device)
        return self.put({n: t.index_copy(0, rows, new[n]) for n, t in before.items()}, name)

    def train_head(self, state: State, held: Tensor, data: Stack, turn: Turn) -> State:
        """Train the person's own head, with a pull to the common one, until it is dropped.

        The body is as it was received. The head's rows of classes that the person lacks are the
        fused model's: one that comes is known.
        """
        if not self.going_on(state, HEAD):
            return {}
        head = self.model.head()
        own = self.predictor.head_of(state, HEAD)
        fused, epochs = self.get(state, FUSED), self.hyper.head_epochs
        pulled = self.loss + Pull({key: fused[key] for key in own}, self.hyper.head_pull)
        new, _ = self.train_restricted(
            fused | own, held, data, turn, only=head, phase="head", epochs=epochs, objective=pulled
        )
        if self._restricted:
            new = {key: torch.where(_rows(held, new[key]), new[key], fused[key]) for key in own}
        return self.put({key: new[key] for key in own}, HEAD)

    def going_on(self, state: State, name: str) -> list[int]:
        """Return the places of those for whom an expert was not dropped."""
        weights = state[COMMON_WEIGHTS][:, names(self.hyper).index(name)]
        return [place for place, weight in enumerate(weights.tolist()) if weight > 0]


def _rows(held: Tensor, of: Tensor) -> Tensor:
    """Return `held` [clients, classes] in the shape of what has a row for each class."""
    return held.view(*held.shape, *[1] * (of.ndim - 2))
