"""What operations without weights do with units."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from fedsub_core.errors import ConfigError
from fedsub_core.models.coupling.labels import NEUTRAL, neutral
from fedsub_core.models.coupling.tracer import Call, Rule, Tracer

#: Each value of what comes out is of the values at its place.
_VALUE_BY_VALUE = (
    "relu relu6 gelu sigmoid tanh silu mish elu selu celu leaky_relu rrelu softplus softsign "
    "hardtanh hardswish hardsigmoid hardshrink softshrink tanhshrink threshold logsigmoid "
    "dropout dropout1d dropout2d dropout3d alpha_dropout feature_alpha_dropout "
    "add radd iadd sub rsub isub subtract mul rmul imul multiply div rdiv rtruediv truediv idiv "
    "itruediv divide true_divide neg negative pow rpow square sqrt rsqrt exp expm1 log log1p abs "
    "sign sin cos clamp clamp_min clamp_max clip maximum minimum where lerp nan_to_num reciprocal "
    "eq ne gt ge lt le logical_and logical_or logical_not masked_fill "
    "contiguous clone detach to float double half long int bool data requires_grad"
)
_PRODUCTS = ("mul", "rmul", "imul", "multiply")
_QUOTIENTS = ("div", "truediv", "idiv", "itruediv", "divide", "true_divide")
#: What comes out are the values that went in, at other places.
_MOVES = (
    "reshape view flatten unflatten transpose swapaxes permute movedim squeeze unsqueeze "
    "getitem select narrow index_select cat concat concatenate stack expand expand_as repeat tile "
    "flip unbind t T mT"
)
_REDUCES = "mean sum amax amin max min std var median logsumexp prod argmax argmin"
_ALONG = {"softmax": 1, "log_softmax": 1, "softmin": 1, "cumsum": 1, "normalize": 2}
_POOLS = ("avg_pool", "max_pool", "lp_pool", "adaptive_avg_pool", "adaptive_max_pool")
_CONSTANTS = (
    "zeros_like ones_like full_like empty_like rand_like randn_like new_zeros new_ones new_full "
    "new_empty new_tensor"
)


def _scales(call: Call, place: int) -> bool:
    """Return whether the tensor at a place only scales the others: 0 of them stays 0."""
    if call.name == "masked_fill":
        return place > 0 and call.get(2, "value") == 0
    return call.name in _PRODUCTS or (call.name in _QUOTIENTS and place > 0)


def _value_by_value(tracer: Tracer, call: Call) -> Tensor:
    """Make units at the same place one, as of a residual sum.

    What no unit owns, and what is the same for all units, may scale them, as a mask of padding.
    """
    labels, shape = tracer.labels, call.shape
    given = [tracer.of(tensor) for tensor in call.tensors]
    if len(given) == 1:
        return given[0].expand(shape)
    # Axes from behind, as PyTorch repeats.
    axes = [{axis - one.ndim for axis in labels.varying(one)} for one in given]
    out = neutral(shape)
    for i, one in enumerate(given):
        others = set().union(*axes[:i], *axes[i + 1 :])
        repeated = {-k for k in range(1, len(shape) + 1) if k > one.ndim or one.shape[-k] == 1}
        if others & repeated and labels.units(one):
            # One value goes with every unit of the others, and is none of them.
            labels.fix(one)
            axes[i] = set()
            continue
        alone = not any(labels.units(other) for other in (*given[:i], *given[i + 1 :]))
        if not (alone or labels.units(one)) and others <= repeated and _scales(call, i):
            continue
        out = labels.together(out, one)
    return out


def _move(tracer: Tracer, call: Call) -> Any:
    """Move labels as the values are."""
    args, named = list(call.args), dict(call.kwargs)
    first = args.pop(0) if args else named.pop("tensors" if "tensors" in named else "input")
    given: Any
    if isinstance(first, Tensor):
        before = tracer.of(first)
        # Labels need not lie in memory as their values do.
        given = before.contiguous() if call.name == "view" else before
    else:
        given = [tracer.of(one) for one in first]
        before = torch.cat([one.flatten() for one in given])
    moved = call.func(given, *args, **named)
    return _whole(tracer, call, before, moved)


def _whole(tracer: Tracer, call: Call, before: Tensor, moved: Any) -> Any:
    """Return what was moved; units must stay together, and on the axes where they were."""
    labels, parts = tracer.labels, moved if isinstance(moved, (tuple, list)) else [moved]
    if any(labels.units(part) != labels.units(before) for part in parts):
        tracer.block(before, f"takes some units by their place ({call.name})")
    split = "view", "reshape", "unflatten"
    if call.name in split and len(labels.varying(before)) < len(labels.varying(moved)):
        tracer.block(before, f"lays units along several axes ({call.name})")
    return moved


def _split(tracer: Tracer, call: Call) -> Any:
    """Divide into parts of equal size: units at the same place of each are one."""
    x, axis = call.get(0, "input"), int(call.get(2, "dim", 0))
    labels = tracer.of(x)
    parts = call.func(labels.contiguous(), *call.args[1:], **call.kwargs)
    if axis % x.ndim in tracer.labels.varying(labels):
        if len({part.shape for part in parts}) > 1:
            tracer.block(labels, f"divides units into parts of other sizes ({call.name})")
        else:
            for part in parts:
                tracer.labels.unite(parts[0], part)
    return parts


def _glu(tracer: Tracer, call: Call) -> Tensor:
    """Gate one half by the other."""
    first, second = tracer.of(call.get(0, "input")).chunk(2, int(call.get(1, "dim", -1)))
    tracer.labels.unite(first, second)
    return first


def _pad(tracer: Tracer, call: Call) -> Tensor:
    """Pad by constants, which go with anything, or by what is there."""
    x, by, mode = call.get(0, "input"), call.get(1, "pad"), call.get(2, "mode", "constant")
    filled = {"value": NEUTRAL} if mode == "constant" else {}
    # PyTorch reflects floating-point numbers alone; labels are small.
    labels = tracer.of(x).contiguous().double()
    moved: Tensor = F.pad(labels, by, mode, **filled).long()
    _whole(tracer, call, tracer.of(x), moved)
    return moved


def _reduce(tracer: Tracer, call: Call) -> Tensor:
    x, axes = call.get(0, "input"), call.get(1, "dim")
    if isinstance(axes, Tensor):  # the greater of two
        return _value_by_value(tracer, call)
    if axes is None:
        axes = call.kwargs.get("axis")
    named = range(x.ndim) if axes is None else [axes] if isinstance(axes, int) else axes
    over = sorted(axis % x.ndim for axis in named)
    found = _over(tracer, call, x, over)
    kept = len(call.shape) == x.ndim
    return found if kept else found.amax(over)


def _over(tracer: Tracer, call: Call, x: Tensor, over: Iterable[int]) -> Tensor:
    """Return labels of a summary over some axes, which keep one entry."""
    labels, found = tracer.labels, tracer.of(x)
    for axis in over:
        axes = labels.varying(found)
        if axes == {axis}:
            tracer.block(found, f"mixes units ({call.name})")
        greatest = labels.greatest(found, axis)
        if len(axes) > 1 and axis in axes:
            labels.unite(found, greatest)  # what is summarised are several layers' outputs
        found = greatest
    return found


def _pool(tracer: Tracer, call: Call) -> Tensor:
    """Make a channel's positions fewer, or more."""
    x = call.get(0, "input")
    positions = 2 if call.name == "interpolate" else x.ndim - int(call.name[-2])
    return _over(tracer, call, x, range(positions, x.ndim)).expand(call.shape)


def _propagate(tracer: Tracer, call: Call) -> Tensor:
    """Mix the nodes of a graph, each unit for itself."""
    h = call.get(0, "h")
    return _over(tracer, call, h, [0]).expand(call.shape)


def _along(tracer: Tracer, call: Call) -> Tensor:
    """Compute of all values along an axis, which must not be the units'."""
    x, axis = call.get(0, "input"), call.get(_ALONG[call.name], "dim", 1)
    if axis is None:
        raise ConfigError(tracer.refusal(f"computes {call.name} without an axis"))
    labels = tracer.of(x)
    if axis % x.ndim in tracer.labels.varying(labels):
        tracer.block(labels, f"mixes units ({call.name})")
    return labels


def _constant(tracer: Tracer, call: Call) -> Tensor:
    return neutral(call.shape)


OPERATIONS: dict[str, Rule] = {
    **dict.fromkeys(_VALUE_BY_VALUE.split(), _value_by_value),
    **dict.fromkeys(_MOVES.split(), _move),
    **dict.fromkeys(_REDUCES.split(), _reduce),
    **dict.fromkeys(_ALONG, _along),
    **{f"{pool}{n}d": _pool for pool in _POOLS for n in (1, 2, 3)},
    **dict.fromkeys(_CONSTANTS.split(), _constant),
    "interpolate": _pool,
    "chunk": _split,
    "split": _split,
    "glu": _glu,
    "pad": _pad,
    "propagate": _propagate,
}
