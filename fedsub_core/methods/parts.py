"""What cards of several methods declare: a model's body, what a frozen body saves, phases."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from fedsub_core.errors import ConfigError
from fedsub_core.methods.card import ReceivedHyperparameters
from fedsub_core.models.architecture import Architecture
from fedsub_core.options import option
from fedsub_core.wire.bundles import Declaration, dense


def head_cost(epochs: int) -> float:
    """Return what training a head costs: one forward pass of the body, and little an epoch."""
    return 0.33 + 0.02 * epochs if epochs else 0.0


@dataclass(frozen=True)
class HeadHyperparameters(ReceivedHyperparameters):
    """Of methods that tell a model's head from its body."""

    head_layers: int = option(1, "number of last layers with units that form the head", minimum=1)


def body(model: Architecture, hyper: Any) -> Declaration:
    """Declare the parameters of the layers before the head."""
    names = model.parameters_of(model.body(hyper.head_layers))
    return {name: dense(model.parameter_shapes[name]) for name in names}


def phase(given: int, rounds: int, share: float) -> int:
    """Return how many rounds a phase lasts: as `given`, or for 0 a `share` of the run, 1 at least.

    Publications fix phases for their own run's length; a share keeps them for any other.
    """
    return given or max(1, int(share * rounds))


def require_within(name: str, key: str, last: int, rounds: int) -> None:
    """Raise a ConfigError where a phase of method `name` would begin or end after the run."""
    if last > rounds:
        raise ConfigError(
            f"{name}.{key}: got a phase that lasts until round {last} of {rounds}, expected one "
            "within the run. Lower it, or raise rounds"
        )


def group_count(default: str) -> Any:
    """Return the hyperparameter that says into how many groups people are divided."""
    rules = r"fixed:[1-9][0-9]*|silhouette"
    like = "silhouette or fixed:K, such as fixed:3"
    return option(default, "number of groups: fixed:K or silhouette", pattern=rules, like=like)


def is_weight(shape: Sequence[int]) -> bool:
    """Return whether a tensor of one client joins units: biases, norms and statistics do not."""
    return len(shape) > 1
