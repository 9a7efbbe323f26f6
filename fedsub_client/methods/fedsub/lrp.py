"""Layer-wise relevance propagation, rule alpha-beta, over a stack of clients (FedSub eq. 4, 5).

For a layer with inputs a, weights w, bias b and relevance R at its output, with
z+ = sum of the positive a*w + max(b, 0) and z- = sum of the negative a*w + min(b, 0), an input's
relevance is the sum over units of ``alpha * (a*w)+ / z+ * R - beta * (a*w)- / z- * R``.
Bach et al., On Pixel-Wise Explanations ... by Layer-Wise Relevance Propagation, PLOS ONE 2015,
eq. 60. Pooling and stabilisation follow zennit's composites: the largest input takes all,
averages share in proportion to their inputs, ReLU passes relevance through.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from fedsub_core.errors import ConfigError
from fedsub_core.models.chain import Chain, Step
from fedsub_core.models.layers import (
    Affine,
    Conv,
    Flatten,
    Layer,
    Linear,
    Pool,
    ReLU,
)
from fedsub_core.models.model import Params

STABILISER = 1e-6
# z- = z - z+ saves a matrix product, but rounds to 1e-7 of z+. In layers with few inputs, and in
# trained classifiers, z- gets so small beside z+ that this shows; there the product is cheap.
SMALL = 64


@dataclass(frozen=True)
class AlphaBeta:
    """The rule's weights of positive and negative contributions, ``alpha - beta = 1``."""

    alpha: float
    beta: float


def require_support(model: Chain) -> None:
    """Raise a ConfigError that names the first layer through which relevance cannot pass."""
    for i, layer in enumerate(model.layers):
        pool = isinstance(layer, Pool) and layer.kind in ("max", "avg", "adaptive-avg")
        if not (pool or isinstance(layer, (Linear, Conv, ReLU, Flatten))):
            raise ConfigError(
                f"layer {i} ({type(layer).__name__}): no relevance rule for it, expected "
                "Linear, Conv, ReLU, Flatten or Pool (max, avg, adaptive-avg)"
            )


def affine_indices(model: Chain) -> list[int]:
    """Return the places of the model's layers with units."""
    return [i for i, layer in enumerate(model.layers) if isinstance(layer, Affine)]


def signed_parts(model: Chain, params: Params) -> Params:
    """Add the parts of the parameters that a backward relevance pass needs.

    For every layer ``weight+`` and ``weight-`` ``[clients, units, fan_in]``, in the order of its
    patches, and ``bias+`` and ``bias-`` ``[clients, 1, units]``. The stabiliser sits in the
    biases, so that no pass over the denominators is spent on it.
    """
    parts = dict(params)
    for layer in model.affine:
        weight, bias = f"{layer.name}.weight", f"{layer.name}.bias"
        matrix, column = layer.matrix(params[weight]), params[bias].unsqueeze(1)
        parts |= {f"{weight}+": matrix.clamp(min=0), f"{weight}-": matrix.clamp(max=0)}
        parts[f"{bias}+"] = column.clamp(min=0).add_(STABILISER)
        parts[f"{bias}-"] = column.clamp(max=0).sub_(STABILISER)
    return parts


def propagate(
    model: Chain,
    parts: Params,
    tape: Sequence[Step],
    relevance: Tensor,
    rule: AlphaBeta,
    to_input: bool = False,
) -> list[Tensor | None]:
    """Return the relevance at the output of every layer, ``[clients, samples, *out]``.

    Parameters
    ----------
    parts : from :func:`signed_parts`.
    tape : of the forward pass.
    relevance : [clients, samples, classes], at the model's output.
    to_input : also pass through the first layer with units and those before it.

    Returns
    -------
    One tensor per layer, and before them the input's; None below the first layer with units,
    unless `to_input`.
    """
    first = affine_indices(model)[0]
    signed = _signed_inputs(model)
    at: list[Tensor | None] = [None] * len(model.layers) + [relevance]
    for i in reversed(range(0 if to_input else first + 1, len(model.layers))):
        layer, step = model.layers[i], tape[i]
        if isinstance(layer, Affine):
            rows = layer.units_last(relevance)
            through = _signed if signed[i] else _non_negative
            relevance = through(layer, parts, step, rows, rule)
        else:
            relevance = _unweighted(layer, step, relevance)
        at[i] = relevance
    return at


def _signed_inputs(model: Chain) -> list[bool]:
    """For every layer, whether its input may be negative."""
    signed, inputs = True, []
    for layer in model.layers:
        inputs.append(signed)
        if isinstance(layer, (Affine, ReLU)):
            signed = not isinstance(layer, ReLU)
    return inputs


def _non_negative(
    layer: Affine, parts: Params, step: Step, relevance: Tensor, rule: AlphaBeta
) -> Tensor:
    """Relevance at the input of a layer whose input is never negative.

    Half of the products vanish: positive contributions come from positive weights alone.
    """
    weight, bias = f"{layer.name}.weight", f"{layer.name}.bias"
    patches = step.patches
    assert patches is not None
    positive = torch.baddbmm(parts[f"{bias}+"], patches, parts[f"{weight}+"].transpose(1, 2))
    if not rule.beta:
        share = torch.div(relevance, positive, out=positive).bmm(parts[f"{weight}+"])
    else:
        if min(layer.fan_in, layer.units) < SMALL:
            by_weight = parts[f"{weight}-"].transpose(1, 2)
            negative = torch.baddbmm(parts[f"{bias}-"], patches, by_weight)
        else:
            # z - (z+ + stabiliser) is z- with its own stabiliser; the clamp undoes rounding.
            negative = layer.units_last(step.out).sub(positive).clamp_(max=-STABILISER)
        torch.div(relevance, positive, out=positive)
        share = positive.bmm(parts[f"{weight}+"])
        torch.div(relevance, negative, out=negative)
        share.baddbmm_(negative, parts[f"{weight}-"], beta=rule.alpha, alpha=-rule.beta)
    return layer.unpatch(share, step.x.shape).mul_(step.x)


def _signed(layer: Affine, parts: Params, step: Step, relevance: Tensor, rule: AlphaBeta) -> Tensor:
    """Relevance at the input of a layer whose input has both signs."""
    weight, bias = f"{layer.name}.weight", f"{layer.name}.bias"
    patches = step.patches
    assert patches is not None
    up, down = parts[f"{weight}+"], parts[f"{weight}-"]
    above, below = patches.clamp(min=0), patches.clamp(max=0)
    positive = parts[f"{bias}+"] + above @ up.transpose(1, 2) + below @ down.transpose(1, 2)
    negative = parts[f"{bias}-"] + above @ down.transpose(1, 2) + below @ up.transpose(1, 2)
    positive, negative = rule.alpha * relevance / positive, rule.beta * relevance / negative
    to_above = layer.unpatch(positive @ up - negative @ down, step.x.shape)
    to_below = layer.unpatch(positive @ down - negative @ up, step.x.shape)
    return to_above * step.x.clamp(min=0) + to_below * step.x.clamp(max=0)


def _unweighted(layer: Layer | Affine, step: Step, relevance: Tensor) -> Tensor:
    """Relevance at the input of a layer without parameters."""
    if isinstance(layer, ReLU):
        return relevance
    if not isinstance(layer, Pool):
        return relevance.reshape(step.x.shape)
    if layer.kind == "max":
        return _through_pool(layer, step.x, relevance)
    sign = torch.where(step.out < 0, -STABILISER, STABILISER)
    share = relevance / (step.out + sign)
    return step.x * _through_pool(layer, step.x, share)


def _through_pool(layer: Pool, x: Tensor, grad: Tensor) -> Tensor:
    """Return the gradient with respect to `x`, given that with respect to what a pool makes."""
    with torch.enable_grad():
        leaf = x.detach().requires_grad_()
        return torch.autograd.grad(layer.forward(leaf), leaf, grad)[0]
