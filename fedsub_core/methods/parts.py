"""What cards of several methods declare: a model's body, and what a frozen body saves."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from fedsub_core.methods.card import ReceivedHyperparameters
from fedsub_core.models.chain import Model
from fedsub_core.options import option
from fedsub_core.wire.bundles import Declaration, dense


def head_cost(epochs: int) -> float:
    """Return what training a head costs: one forward pass of the body, and little an epoch."""
    return 0.33 + 0.02 * epochs if epochs else 0.0


@dataclass(frozen=True)
class HeadHyperparameters(ReceivedHyperparameters):
    """Of methods that tell a model's head from its body."""

    head_layers: int = option(1, "last layers with units that are the head", minimum=1)


def body(model: Model, hyper: Any) -> Declaration:
    """Declare the parameters of the layers before the head."""
    names = model.parameters_of(model.body(hyper.head_layers))
    return {name: dense(model.parameter_shapes[name]) for name in names}
