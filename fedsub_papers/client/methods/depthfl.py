"""DepthFL, the device half (Kim et al. 2023): exits teach each other, drift is corrected."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import exp
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from fedsub_client.learner import Fitted, Learner, Received, State, reported
from fedsub_client.predictor import Predictor
from fedsub_core.data.stacks import Stack
from fedsub_core.models.chain import Chain, describe, described, require_chain
from fedsub_core.models.model import Model, Params
from fedsub_core.models.to_torch import chain_to_torch
from fedsub_core.training import Pull, Turn
from fedsub_core.training.objectives import CrossEntropy, Forward, Objective, Term
from fedsub_papers.models.exits import Exit, Exits, exits_of

_DRIFT = "drift.model."


class DepthFLLearner(Learner):
    """State: the model; with ``feddyn`` ``drift.model.<tensor>``, the client's term of FedDyn."""

    def init(self, clients: int, seed: int) -> State:
        """Return the shared start, without drift."""
        state = super().init(clients, seed)
        if not self.hyper.feddyn:
            return state
        model = self.get(state, "model")
        return state | {_DRIFT + name: torch.zeros_like(t) for name, t in model.items()}

    def fit(self, state: State, received: Received, data: Stack, turn: Turn) -> Fitted:
        """Adopt what is sent, train all exits, send it back."""
        state = self.receive(state, received)
        begun, exits = self.get(state, "model"), exits_of(require_chain(self.model))
        objective = Objective((CrossEntropy((1.0,) * exits if exits > 1 else ()),))
        if self.hyper.kd and exits > 1:
            objective += Mutual(ramped(turn.round - 1, self.hyper.ramp))
        if alpha := self.hyper.alpha * self.hyper.feddyn:
            # alpha / 2 |w - a|^2 - <w, q> is a pull to a + q / alpha, but for a constant.
            anchor = {n: t + state[_DRIFT + n] / alpha for n, t in begun.items()}
            objective += Pull(anchor, alpha)
        params, loss = self.train(begun, data, turn, objective=objective)
        if alpha:
            state |= {_DRIFT + n: state[_DRIFT + n] - alpha * (params[n] - begun[n]) for n in begun}
        state = state | self.put(params, "model")
        return state, self.uploads(params, data), reported(training_loss=loss)


def ramped(round: int, ramp: int) -> float:
    """Return the weight with which exits teach in a round, from 0 on: e**-5 at first, 1 at last."""
    return exp(-5 * (1 - min(round, ramp) / ramp) ** 2)


@dataclass(frozen=True)
class Mutual(Term):
    """Every exit learns from all others, whose logits are constants then.

    ``weight / (d - 1) * sum_i sum_(j != i) KL(softmax(z_j) || softmax(z_i))``, the mean over the
    batch. Source: Kim et al. 2023, eq. 3; Zhang et al., Deep Mutual Learning, CVPR 2018.
    """

    weight: float

    def loss(self, forward: Forward, own: Params) -> Tensor:
        """See :class:`Term`."""
        said = [logits.log_softmax(-1) for logits in forward.outputs]
        total = said[-1].new_zeros(())
        for i, student in enumerate(said):
            for j, teacher in enumerate(said):
                if i != j:
                    target = teacher.detach()
                    apart = (target.exp() * (target - student)).sum(-1)
                    total = total + (apart * forward.batch.weight).sum()
        return self.weight / (len(said) - 1) * total


@dataclass(frozen=True)
class MeanOfExits(Predictor):
    """The mean of all exits' logits."""

    computes: ClassVar[str] = (
        "probabilities = softmax(mean of the logits of layers({seen}) and of every exit's layers, "
        "which see what the layer at place `after`, from 0, makes of {seen})"
    )

    @classmethod
    def described(cls, model: Model, facts: Mapping[str, Any]) -> MeanOfExits:
        """Inverse of :meth:`describe`."""
        chain, exits = require_chain(model), []
        for told in facts["exits"]:
            seen = Chain(chain.layers[: told["after"] + 1], chain.input_shape).output_shape
            exits.append(Exit(told["after"], described(told["layers"], seen)))
        if not exits:
            return cls(chain)
        return cls(Exits(chain.layers, chain.input_shape, tuple(exits)))

    def describe(self) -> dict[str, Any]:
        """Return the exits before the model's end: behind which layer, and their layers."""
        exits = self.model.exits if isinstance(self.model, Exits) else ()
        return {"exits": [{"after": e.after, "layers": describe(e.head)} for e in exits]}

    def forward(self, params: Params, x: Tensor) -> Tensor:
        """Return logits ``[clients, samples, classes]``."""
        return torch.stack(require_chain(self.model).outputs(params, x)).mean(0)

    def to_torch(self, params: Params) -> nn.Module:
        """Return a module of one client's layers and exits."""
        return ExitModule(require_chain(self.model), params)


class ExitModule(nn.Module):
    """``x [batch, *features]``, standardised, to the mean of all exits' logits.

    Parameters
    ----------
    model : the chain and its exits.
    params : without a client axis; they are copied.
    """

    def __init__(self, model: Chain, params: Params) -> None:
        super().__init__()
        exits = model.exits if isinstance(model, Exits) else ()
        self.layers = chain_to_torch(model, params)
        self.after = tuple(one.after for one in exits)
        self.heads = nn.ModuleList(chain_to_torch(one.head, params) for one in exits)

    def forward(self, x: Tensor) -> Tensor:
        """Return the logit of every class."""
        said, heads = [], dict(zip(self.after, self.heads, strict=True))
        for place, layer in enumerate(self.layers):
            x = layer(x)
            if place in heads:
                said.append(heads[place](x))
        return torch.stack([*said, x]).mean(0)
