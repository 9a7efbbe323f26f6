"""Layer-wise relevance propagation through any module, by the rules of :mod:`.lrp`.

Functions of PyTorch are replaced, as a module calls them, by ones whose gradient is relevance: a
gradient of the outputs with respect to what a layer made is then the layer's relevance. The rules
(:mod:`.module_rules`) are those of zennit's composites: alpha-beta for layers with weights, with a
BatchNorm right behind one folded into it (zennit's canonizer); sums and averages share in
proportion to what they add up; maxima give all to the largest; activations, and BatchNorm
elsewhere, pass relevance on.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.utils.hooks import RemovableHandle

from fedsub_client.methods.fedsub.lrp import AlphaBeta
from fedsub_client.methods.fedsub.module_rules import Layer, Same, Shared, Weighted
from fedsub_core.errors import ConfigError
from fedsub_core.models.following import ACTIVATIONS, AFFINE, GATES, Following, Made, named
from fedsub_core.models.torch_model import TorchModel
from fedsub_core.models.traced import zeros

#: Of two numbers and more one: each gets a share.
SHARED = frozenset({
    "add", "__add__", "__radd__", "sum", "mean", "avg_pool1d", "avg_pool2d", "avg_pool3d",
    "adaptive_avg_pool1d", "adaptive_avg_pool2d", "adaptive_avg_pool3d",
})  # fmt: skip
#: By a number that does not depend on the sample.
SCALED = frozenset({
    "mul", "__mul__", "__rmul__", "div", "__truediv__", "true_divide",
})  # fmt: skip
#: What moves numbers about, chooses among them or leaves them out; the gradient does the same.
MOVED = frozenset({
    "flatten", "unflatten", "view", "view_as", "reshape", "transpose", "swapaxes", "permute",
    "movedim", "moveaxis", "squeeze", "unsqueeze", "contiguous", "clone", "to", "__getitem__",
    "select", "narrow", "chunk", "split", "unbind", "cat", "concat", "concatenate", "stack",
    "pad", "flip", "roll", "expand", "dropout", "dropout1d", "dropout2d", "dropout3d",
    "alpha_dropout", "feature_alpha_dropout", "max_pool1d", "max_pool2d", "max_pool3d",
    "adaptive_max_pool1d", "adaptive_max_pool2d", "adaptive_max_pool3d", "max", "amax",
})  # fmt: skip


class Propagation(Following):
    """Relevance by a rule. With `made`: what every layer with units made, in all its calls."""

    def __init__(self, tensors: dict[str, Tensor], rule: AlphaBeta) -> None:
        super().__init__(tensors)
        self.rule = rule
        self.calls: dict[str, list[Made]] = {}
        #: Name and class of the module that computes, for messages.
        self.inside = "the module itself"
        self._layers: dict[int, tuple[Tensor, Layer]] = {}

    def made(self, made: Made, tensors: Sequence[str], new: bool, gates: int = 1) -> None:
        """Keep what a layer made, with its norm; relevance is the same behind an activation."""
        if new:
            self.calls.setdefault(made.layer, []).append(made)
        elif tensors:
            self.calls[made.layer][-1] = made

    def compute(self, kind: str, func: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        """Compute as `func` does, with relevance for a gradient.

        Raises ConfigError if there is no rule for it.
        """
        if kind in AFFINE:
            return self._affine(func, args, kwargs)
        if kind in GATES and not _depends(args):
            x, *states = func(*args, **kwargs)
            return x.detach().requires_grad_(), *states
        if not _depends((args, kwargs)):
            return func(*args, **kwargs)  # before the first layer with units
        if kind == "batch_norm" and not named(args, kwargs, *["_"] * 5, "training")[5]:
            return self._normed(func, args, kwargs)
        if kind in ACTIVATIONS:
            return Same.apply(lambda x: func(x.clone(), *args[1:], **kwargs), args[0])  # type: ignore[no-untyped-call]
        if kind in SHARED or kind == "add_":
            return self._shared(torch.add if kind == "add_" else func, args, kwargs)
        if kind in SCALED and _depends(args[:1]) + _depends(args[1:]) == 1:
            (place,) = [i for i, value in enumerate(args) if _depends((value,))]
            seen = args[place]
            out = Same.apply(lambda x: func(*args[:place], x, *args[place + 1 :]), seen)  # type: ignore[no-untyped-call]
            if out.shape == seen.shape:
                return out
        elif kind in MOVED:
            return func(*args, **kwargs)
        elif not kind.endswith("_") or kind.startswith("__"):
            out = func(*args, **kwargs)
            if not _depends((out,)):
                return out  # a shape, for instance
        raise ConfigError(
            f"relevance: got {kind} in {self.inside}, for which there is no rule; expected Linear, "
            "convolutions, BatchNorm, activations, pooling, sums and what moves numbers about. "
            "relevance = naive takes any layer"
        )

    def _affine(self, func: Callable[..., Any], args: Any, kwargs: Any) -> Tensor:
        x, weight, bias = named(args, kwargs, "input", "weight", "bias")
        rest = {n: v for n, v in kwargs.items() if n not in ("input", "weight", "bias")}
        if not x.requires_grad:
            x = x.detach().requires_grad_()  # here relevance ends
        layer = Layer(lambda *inputs: func(*inputs, *args[3:], **rest), x, weight, bias)
        out: Tensor = Weighted.apply(layer, self.rule, layer.operation(x.detach(), weight, bias), x)  # type: ignore[no-untyped-call]
        self._layers[id(out)] = out, layer
        return out

    def _normed(self, func: Callable[..., Any], args: Any, kwargs: Any) -> Tensor:
        """BatchNorm by its statistics: a part of the layer right before it."""
        names = "input", "running_mean", "running_var", "weight", "bias", "training", "_", "eps"
        x, mean, var, weight, bias, *_, eps = named(args, kwargs, *names)
        known = self._layers.get(id(x))
        # The channels of a Linear layer that sees series are time.
        if known is None or (known[1].weight.ndim == 2 and x.ndim > 2):
            return Same.apply(lambda x: func(x, *args[1:], **kwargs), x)  # type: ignore[no-untyped-call, no-any-return]
        before = known[1]
        scale = (var + (1e-5 if eps is None else eps)).rsqrt()
        scale = scale if weight is None else scale * weight
        at_zero = -mean if before.bias is None else before.bias - mean
        folded = at_zero * scale if bias is None else at_zero * scale + bias
        by_unit = scale.view(-1, *[1] * (before.weight.ndim - 1))
        layer = before._replace(weight=before.weight * by_unit, bias=folded)
        with torch.no_grad():
            out = func(x, *args[1:], **kwargs)
        return Weighted.apply(layer, self.rule, out, layer.x)  # type: ignore[no-untyped-call, no-any-return]

    def _shared(self, func: Callable[..., Any], args: Any, kwargs: Any) -> Tensor:
        places = [i for i, value in enumerate(args) if _depends((value,))]

        def operation(*seen: Tensor) -> Tensor:
            new = list(args)
            for place, value in zip(places, seen, strict=True):
                new[place] = value
            out: Tensor = func(*new, **kwargs)
            return out

        return Shared.apply(operation, *[args[place] for place in places])  # type: ignore[no-untyped-call, no-any-return]


def _depends(values: Any) -> bool:
    """Return whether any tensor among nested values follows from a layer with units."""
    if isinstance(values, Tensor):
        return values.requires_grad
    if isinstance(values, dict):
        values = values.values()
    return isinstance(values, (tuple, list, type({}.values()))) and any(map(_depends, values))


def require_rules(model: TorchModel, rule: AlphaBeta) -> None:
    """Refuse a module through which relevance cannot pass.

    Raises ConfigError that names the function, and the module that calls it.
    """
    module = copy.deepcopy(model.module).eval()
    own = {**dict(module.named_parameters()), **dict(module.named_buffers())}
    module.requires_grad_(False)
    x = zeros(model.input_shape)
    if x.is_floating_point():
        x = torch.linspace(-1, 1, x.numel()).view(x.shape)
    lrp = Propagation(own, rule)
    inside: list[str] = [lrp.inside]
    handles: list[RemovableHandle] = []

    def enters(name: str, kind: str) -> Callable[..., None]:
        def enter(*_: Any) -> None:
            inside.append(f"layer {name} ({kind})")
            lrp.inside = inside[-1]

        return enter

    def leave(*_: Any) -> None:
        inside.pop()
        lrp.inside = inside[-1]

    for name, layer in module.named_modules():
        if name:
            handles.append(layer.register_forward_pre_hook(enters(name, type(layer).__name__)))
            handles.append(layer.register_forward_hook(leave))
    with lrp:
        out = module(x)
    for handle in handles:
        handle.remove()
    expected = module(x)
    if not torch.allclose(out, expected, rtol=1e-3, atol=1e-3):
        raise ConfigError(
            f"relevance: model {model.trace.name}: got other outputs where relevance is followed: "
            "some function changes a tensor in place. Assign what it returns, or set relevance = "
            "naive"
        )
