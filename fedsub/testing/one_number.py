"""Learners of a model of one number, whose gradient is known: for numbers worked out by hand."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from fedsub_client.learner import Learner
from fedsub_client.new_cohort import make_learner
from fedsub_core.data.stacks import Stack, stack
from fedsub_core.methods.table import method
from fedsub_core.models.chain import Chain
from fedsub_core.models.layers import Linear, ReLU
from fedsub_core.training import Term, TrainingSettings
from fedsub_core.training.objectives import Forward

ONE = Chain((Linear("linear1", 1, 1),), (1,))
TWO = Chain((Linear("linear1", 1, 1), ReLU(), Linear("linear2", 1, 1)), (1,))
WEIGHT, BIAS = "linear1.weight", "linear1.bias"


@dataclass(frozen=True)
class Slope(Term):
    """A loss whose gradient is `slope` in every weight; biases do not matter."""

    slope: float

    def loss(self, forward: Forward, own: Any) -> Tensor:
        """Return ``slope * p`` summed."""
        return self.slope * _over_batches(forward, lambda p: p)


@dataclass(frozen=True)
class Parabola(Term):
    """``p**2 / 2`` in every weight."""

    def loss(self, forward: Forward, own: Any) -> Tensor:
        """Return the loss, summed."""
        return _over_batches(forward, lambda p: p**2 / 2)


@dataclass(frozen=True)
class Curve(Term):
    """``x * p**2 / 2`` in every weight, averaged over the batch: a slope that each sample has."""

    def loss(self, forward: Forward, own: Any) -> Tensor:
        """Return the loss, summed."""
        mean = (forward.batch.x.flatten(2).sum(2) * forward.batch.weight).sum(1)
        weights = [p for name, p in forward.params.items() if name.endswith("weight")]
        return torch.stack([((p**2 / 2).flatten(1).sum(1) * mean).sum() for p in weights]).sum()


def _over_batches(forward: Forward, of: Callable[[Tensor], Tensor]) -> Tensor:
    """Return the sum over clients and weights of a batch's weighted mean, as a loss takes it."""
    batch = forward.batch.weight.sum(1)
    weights = [p for name, p in forward.params.items() if name.endswith("weight")]
    return torch.stack([(of(p).flatten(1).sum(1) * batch).sum() for p in weights]).sum()


def one_number(
    name: str, loss: Term, settings: TrainingSettings, model: Chain = ONE, **hyper: Any
) -> Learner:
    """Return a method's device half for a model of one number (or two), with another loss."""
    card = method(name)
    given = card.hyperparameters(**hyper)
    learner = make_learner(card, model, settings, given)
    learner.loss = loss
    return learner


def samples(*counts: int) -> Stack:
    """Return a stack of clients with so many samples of class 0."""
    xs = [np.ones((n, 1), np.float32) for n in counts]
    ids = [f"c{i}" for i in range(len(counts))]
    return stack(ids, xs, [np.zeros(n, np.int64) for n in counts])


def weights(learner: Learner, state: Mapping[str, Tensor], model: str) -> list[float]:
    """Return each client's one weight of one of its models."""
    return learner.get(dict(state), model)[WEIGHT].flatten().tolist()


def filled(learner: Learner, clients: int, **values: float) -> dict[str, Tensor]:
    """Return a state whose models are filled with numbers, and whose biases are 0."""
    state = learner.init(clients, 0)
    for name in learner.models:
        for key in learner.model.parameter_shapes:
            value = values[name] if key.endswith("weight") else 0.0
            state[f"{name}.{key}"] = torch.full_like(state[f"{name}.{key}"], value)
    return state
