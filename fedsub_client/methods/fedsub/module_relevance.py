"""Relevance of a module's units: the pass that :mod:`.relevance_pass` makes through a chain."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from fedsub_client.methods.fedsub.module_lrp import Propagation
from fedsub_client.methods.fedsub.relevance_pass import RULES
from fedsub_core.models.following import Following, Made
from fedsub_core.models.model import Params
from fedsub_core.models.torch_model import TorchModel


class Activations(Following):
    """Mean activation over positions ``[samples, units]`` of each layer, in each of its calls.

    After the norm and the activation right behind the layer.
    """

    def __init__(self, tensors: Params) -> None:
        super().__init__(tensors)
        self.calls: dict[str, list[Tensor]] = {}

    def made(self, made: Made, tensors: Sequence[str], new: bool, gates: int = 1) -> None:
        """Keep the mean, at once: what comes next may change it in place."""
        mean = by_unit(made.out, made.axis).mean(2)
        if new:
            self.calls.setdefault(made.layer, []).append(mean)
        else:
            self.calls[made.layer][-1] = mean


def by_unit(out: Tensor, axis: int) -> Tensor:
    """Return a layer's output as ``[samples, units, positions]``."""
    return out.movedim(axis, 1).reshape(len(out), out.shape[axis], -1)


def module_sums(
    model: TorchModel, params: Params, x: Tensor, of_class: Tensor, rule: str, start: str
) -> tuple[list[Tensor], Tensor]:
    """Return every layer's relevance summed over each class's samples, and the logits.

    As :func:`fedsub_client.methods.fedsub.relevance_pass.class_sums`, of one client alone: all
    tensors have a leading axis of length 1. A layer that computes several times has the mean of its
    activations, and the sum of its relevance.
    """
    own = {name: tensor[0].detach() for name, tensor in params.items()}
    if rule == "naive":
        seen = Activations(own)
        with torch.no_grad():
            logits = model.passes.followed(own, x[0], seen)
        by_layer = {name: torch.stack(calls).mean(0) for name, calls in seen.calls.items()}
    else:
        logits, by_layer = _propagated(model, own, x[0], of_class[0], rule, start)
    by_class = of_class[0].T
    return [(by_class @ by_layer[layer.name])[None] for layer in model.affine], logits[None]


def _propagated(
    model: TorchModel, own: Params, x: Tensor, of_class: Tensor, rule: str, start: str
) -> tuple[Tensor, dict[str, Tensor]]:
    """Return the logits ``[samples, classes]``, and each layer's relevance ``[samples, units]``."""
    lrp = Propagation(own, RULES[rule])
    with torch.enable_grad():
        logits = model.passes.followed(own, x, lrp)
    first = logits.detach().relu()
    if start == "target":
        first = first * of_class
    calls = [made for layer in model.affine for made in lrp.calls[layer.name]]
    # Where a layer's output leads nowhere, it has none.
    gradients = torch.autograd.grad(logits, [made.out for made in calls], first, allow_unused=True)
    by_layer: dict[str, Tensor] = {}
    for made, gradient in zip(calls, gradients, strict=True):
        at = torch.zeros_like(made.out) if gradient is None else gradient
        mine = by_unit(at, made.axis).sum(2)
        by_layer[made.layer] = by_layer[made.layer] + mine if made.layer in by_layer else mine
    return logits.detach(), by_layer
