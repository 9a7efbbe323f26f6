"""What cards of several methods declare of a model's layers: body, head, and what a head costs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from fedsub_core.methods.card import ReceivedHyperparameters
from fedsub_core.models.architecture import Architecture
from fedsub_core.options import option
from fedsub_core.wire.bundles import Declaration, dense


def head_cost(epochs: int) -> float:
    """Return the cost of training a head: one forward pass of the body, and little an epoch."""
    return 0.33 + 0.02 * epochs if epochs else 0.0


@dataclass(frozen=True)
class HeadHyperparameters(ReceivedHyperparameters):
    """The hyperparameters of methods that tell a model's head from its body."""

    head_layers: int = option(1, "number of last layers with units that form the head", minimum=1)


def body(model: Architecture, hyper: Any) -> Declaration:
    """Declare the parameters of the layers before the head."""
    names = model.parameters_of(model.body(hyper.head_layers))
    return {name: dense(model.parameter_shapes[name]) for name in names}


def is_weight(shape: Sequence[int]) -> bool:
    """Return whether a tensor of one client joins units: biases, norms and statistics do not."""
    return len(shape) > 1
