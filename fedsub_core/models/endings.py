"""Endings of a module where the loss expects logits: a softmax, a sigmoid, a ReLU.

Cross-entropy applies a softmax itself. Behind another one a class's probability never gets near 1,
and gradients nearly vanish; nothing fails, and scores are low.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

#: Last layers whose outputs are no logits, and what they are.
_BOUNDED: dict[type[nn.Module], str] = {
    nn.Sigmoid: "numbers between 0 and 1",
    nn.Tanh: "numbers between -1 and 1",
    nn.LogSigmoid: "numbers below 0",
    nn.ReLU: "numbers that are 0 or more",
}
_FLAT = (
    "The loss applies a softmax itself, so gradients are too small and scores too low. Leave it "
    "out: the last layer gives logits"
)


def ending(module: nn.Module, calls: Sequence[tuple[str, Tensor, Tensor]], out: Tensor) -> str:
    """Return the reason why a module's ending does not fit the loss; "" if it does.

    A softmax is known by what it makes, for it need not be a layer.

    Parameters
    ----------
    calls : name, input and output of each layer, in the order in which they computed.
    out : of the module, ``[samples, classes]``.
    """
    if out.shape[1] < 2 or not torch.isfinite(out).all():
        return ""
    if bool((out >= 0).all()) and _ones(out.sum(1)):
        return f"its outputs are probabilities that sum to 1, as of a softmax. {_FLAT}"
    if bool((out <= 0).all()) and _ones(out.exp().sum(1)):
        return (
            "its outputs are logarithms of probabilities, as of a log-softmax. The loss applies "
            "one itself: a second one changes no score, and methods that look at logits see none. "
            "Leave it out"
        )
    last = next((name for name, _, made in reversed(calls) if made is out), "")
    return bounded(module.get_submodule(last))


def bounded(layer: nn.Module) -> str:
    """Return the reason why a last layer's outputs are no logits; "" if they may be."""
    what = next((text for kind, text in _BOUNDED.items() if isinstance(layer, kind)), "")
    return (
        f"its outputs are {what}, as it ends with {type(layer).__name__}. {_FLAT}" if what else ""
    )


def _ones(sums: Tensor) -> bool:
    return bool(torch.allclose(sums, torch.ones_like(sums), atol=1e-5))
