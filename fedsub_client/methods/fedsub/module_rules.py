"""Functions whose gradient is relevance: the rules by which it passes the layers of a module.

Weighted, shared and passed on as in :mod:`.lrp`, whose stabiliser is theirs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import FunctionCtx

from fedsub_client.methods.fedsub.lrp import STABILISER, AlphaBeta

Operation = Callable[..., Tensor]


class Layer(NamedTuple):
    """A layer's function of ``(x, weight, bias)``, and what it was called with."""

    operation: Operation
    x: Tensor
    weight: Tensor
    bias: Tensor | None


class Weighted(Function):
    """What a layer made of its input, which is given; relevance by alpha-beta."""

    @staticmethod
    def forward(ctx: Any, layer: Layer, rule: AlphaBeta, out: Tensor, x: Tensor) -> Tensor:
        """Return `out`, which the layer makes of `x`."""
        ctx.layer, ctx.rule = layer, rule
        return out

    @staticmethod
    def backward(ctx: Any, relevance: Tensor) -> tuple[Any, ...]:
        """Return the relevance of `x`, given that of `out`: see :mod:`.lrp`."""
        operation, x, weight, bias = ctx.layer
        bias = weight.new_zeros(len(weight)) if bias is None else bias
        x = x.detach()
        # Where no input is negative, half of the products vanish.
        signed = bool((x < 0).any())
        result = torch.zeros_like(x)
        up, down = weight.clamp(min=0), weight.clamp(max=0)
        sides = (ctx.rule.alpha, (up, down), bias.clamp(min=0) + STABILISER)
        others = (-ctx.rule.beta, (down, up), bias.clamp(max=0) - STABILISER)
        for factor, weights, floor in (sides, others):
            if not factor:
                continue
            seen = [x.clamp(min=0), x.clamp(max=0)] if signed else [x.detach()]
            with torch.enable_grad():
                leaves = [tensor.requires_grad_() for tensor in seen]
                z = operation(leaves[0], weights[0], floor)
                if signed:
                    z = z + operation(leaves[1], weights[1], None)
            gradients = torch.autograd.grad(z, leaves, factor * relevance / z)
            for leaf, gradient in zip(leaves, gradients, strict=True):
                result += leaf.detach() * gradient
        return None, None, None, result


class Shared(Function):
    """What a sum or a mean makes; what it adds up gets relevance in proportion."""

    @staticmethod
    def forward(ctx: Any, operation: Operation, *seen: Tensor) -> Tensor:
        """Return the sum's output."""
        ctx.operation = operation
        ctx.save_for_backward(*seen)
        return operation(*seen)

    @staticmethod
    def backward(ctx: Any, relevance: Tensor) -> tuple[Any, ...]:
        """Return the relevance of each, given that of what it makes."""
        with torch.enable_grad():
            leaves = [tensor.detach().requires_grad_() for tensor in ctx.saved_tensors]
            out = ctx.operation(*leaves)
        stable = out.detach() + torch.where(out.detach() < 0, -STABILISER, STABILISER)
        gradients = torch.autograd.grad(out, leaves, relevance / stable)
        return None, *[tensor.detach() * g for tensor, g in zip(leaves, gradients, strict=True)]


class Same(Function):
    """What an activation makes of each number; relevance passes."""

    @staticmethod
    def forward(ctx: FunctionCtx, operation: Operation, x: Tensor) -> Tensor:
        """Return the activation's output."""
        return operation(x)

    @staticmethod
    def backward(ctx: FunctionCtx, relevance: Tensor) -> tuple[Any, ...]:
        """Return the relevance as it came."""
        return None, relevance
