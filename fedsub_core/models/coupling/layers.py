"""What layers with weights of their own do with units."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from fedsub_core.errors import ConfigError
from fedsub_core.models.coupling.labels import FIXED, spread
from fedsub_core.models.coupling.tracer import Call, Rule, Tracer, unknown


def _linear(tracer: Tracer, call: Call) -> Tensor:
    x, weight, bias = (call.get(*one) for one in ((0, "input"), (1, "weight"), (2, "bias")))
    return _affine(tracer, call, x, -1, weight, (0, 1), bias)


def _matmul(tracer: Tracer, call: Call) -> Any:
    x, weight = call.tensors
    if not tracer.named(weight) or weight.ndim != 2:
        return unknown(tracer, call)
    return _affine(tracer, call, x, -1, weight, (1, 0), None)


def _affine(
    tracer: Tracer,
    call: Call,
    x: Tensor,
    axis: int,
    weight: Tensor,
    sides: tuple[int, int],
    bias: Tensor | None,
) -> Tensor:
    """Return units of a layer that sums over an axis of `x`; `sides`: axes of rows and columns."""
    made, read = sides
    labels = tracer.of(x)
    axes = tracer.labels.varying(labels)
    if axes and axis % x.ndim not in axes:  # it mixes positions, of each unit for itself
        for side in sides:
            tracer.own(weight, side, _fixed(weight.shape[side]))
        if call.name.startswith("conv"):
            tracer.block(labels, "takes units for positions")
        return tracer.labels.greatest(labels, axis).expand(call.shape)
    tracer.own(weight, read, tracer.labels.along(labels, axis), reads=True)
    units = tracer.makes(weight, made)
    tracer.own(bias, 0, units)
    return spread(units, axis, call.shape)


def _conv(tracer: Tracer, call: Call) -> Tensor:
    """Convolve; of several groups, channels of a group are one unit."""
    x, weight, bias = (call.get(*one) for one in ((0, "input"), (1, "weight"), (2, "bias")))
    groups = int(call.get(6, "groups", 1))
    if x.ndim != weight.ndim:
        raise ConfigError(tracer.refusal("convolves without an axis of samples"))
    transposed = "transpose" in call.name
    if groups == 1:
        sides = (1, 0) if transposed else (0, 1)
        return _affine(tracer, call, x, 1, weight, sides, bias)
    if transposed:
        raise ConfigError(tracer.refusal(f"transposes a convolution of {groups} groups"))
    channels, units = _channels(tracer, x), tracer.makes(weight, 0)
    _as_one(tracer, groups, channels, units)
    tracer.own(weight, 1, _fixed(weight.shape[1]))
    tracer.own(bias, 0, units)
    return spread(units, 1, call.shape)


def _batch_norm(tracer: Tracer, call: Call) -> Tensor:
    """Normalise each channel for itself; statistics and weights are the channel's."""
    x = call.get(0, "input")
    channels = _channels(tracer, x)
    for one in enumerate(("running_mean", "running_var", "weight", "bias"), 1):
        tracer.own(call.get(*one), 0, channels)
    return tracer.of(x)


def _group_norm(tracer: Tracer, call: Call) -> Tensor:
    """Normalise groups of channels, which then are one unit each.

    One group of all channels is normalised as by a LayerNorm: over those that there are.
    """
    x, groups = call.get(0, "input"), int(call.get(1, "num_groups"))
    channels = _channels(tracer, x)
    if groups > 1:
        _as_one(tracer, groups, channels)
    else:
        tracer.normed.append(channels)
    for one in ((2, "weight"), (3, "bias")):
        tracer.own(call.get(*one), 0, channels)
    return tracer.of(x)


def _layer_norm(tracer: Tracer, call: Call) -> Tensor:
    """Normalise over the last axes: in a smaller model, over the units that it has."""
    x, shape = call.get(0, "input"), call.get(1, "normalized_shape")
    labels = tracer.of(x)
    leading = x.ndim - len(shape)
    inside = {axis for axis in tracer.labels.varying(labels) if axis >= leading}
    if len(inside) > 1:
        tracer.block(labels, "normalises over units along several axes")
    if inside:
        tracer.normed.append(labels)
    own = (call.get(*one) for one in ((2, "weight"), (3, "bias")))
    for tensor in own if call.name == "layer_norm" else (call.get(2, "weight"),):
        for axis in inside:
            tracer.own(tensor, axis - leading, tracer.labels.along(labels, axis))
    return labels


def _prelu(tracer: Tracer, call: Call) -> Tensor:
    x, weight = call.get(0, "input"), call.get(1, "weight")
    if weight.numel() > 1:
        tracer.own(weight, 0, _channels(tracer, x))
    return tracer.of(x)


def _embedding(tracer: Tracer, call: Call) -> Tensor:
    """Look up rows, one for each token, whose columns are units."""
    weight = call.get(1, "weight")
    tracer.own(weight, 0, _fixed(weight.shape[0]))
    return spread(tracer.makes(weight, 1), -1, call.shape)


def _channels(tracer: Tracer, x: Tensor) -> Tensor:
    """Return labels of the axis behind that of the samples."""
    labels = tracer.of(x)
    if tracer.labels.varying(labels) - {1}:
        tracer.block(labels, "takes units for positions")
    return tracer.labels.along(labels, 1)


def _as_one(tracer: Tracer, groups: int, *channels: Tensor) -> None:
    """Say that channels of a group are one unit."""
    each = torch.cat([one.view(groups, -1) for one in channels], 1)
    tracer.labels.unite(each, each[:, :1])


def _fixed(entries: int) -> Tensor:
    return torch.full((entries,), FIXED)


LAYERS: dict[str, Rule] = {
    "linear": _linear,
    "matmul": _matmul,
    "mm": _matmul,
    **{f"conv{n}d": _conv for n in (1, 2, 3)},
    **{f"conv_transpose{n}d": _conv for n in (1, 2, 3)},
    "batch_norm": _batch_norm,
    "instance_norm": _batch_norm,
    "group_norm": _group_norm,
    "layer_norm": _layer_norm,
    "rms_norm": _layer_norm,
    "prelu": _prelu,
    "embedding": _embedding,
    "embedding_bag": _embedding,
}


#: Rows of a recurrent layer's weights that a hidden unit has.
_GATES = {"lstm": 4, "gru": 3, "rnn_tanh": 1, "rnn_relu": 1}


def _recurrent(tracer: Tracer, call: Call) -> Any:
    """Follow a recurrent layer of any number of layers and directions.

    PyTorch has one ``hidden_size`` for all of them, so that their units are one group.
    """
    x, hx, weights, biased, layers, _, _, both, _ = (
        call.args if len(call.args) == 9 else (None,) * 9
    )
    parts = 4 if biased else 2
    if x is None or len(weights) != parts * layers * (1 + both):
        raise ConfigError(
            tracer.refusal(f"is an {call.name} of packed samples, or with projections")
        )
    seen = tracer.labels.along(tracer.of(x), -1)
    hidden = _hidden(tracer, weights[0], call.name)
    for layer in range(layers):
        for direction in range(1 + both):
            first = parts * (layer * (1 + both) + direction)
            one = weights[first : first + parts]
            tracer.labels.unite(_hidden(tracer, one[0], call.name), hidden)
            _own_gates(tracer, one, seen, hidden)
        seen = hidden.repeat(1 + both)
    for state in hx if isinstance(hx, tuple) else (hx,):
        tracer.labels.unite(tracer.of(state), hidden)
    each = [spread(seen, -1, call.out[0].shape)]
    return each + [spread(hidden, -1, state.shape) for state in call.out[1:]]


def _cell(tracer: Tracer, call: Call) -> Any:
    """Follow one step of a recurrent layer."""
    x, hx, *weights = call.args
    hidden = _hidden(tracer, weights[0], call.name.removesuffix("_cell"))
    seen = tracer.labels.along(tracer.of(x), -1)
    _own_gates(tracer, weights, seen, hidden)
    for state in hx if isinstance(hx, (tuple, list)) else (hx,):
        tracer.labels.unite(tracer.of(state), hidden)
    return spread(hidden, -1, call.shape)


def _hidden(tracer: Tracer, weight: Tensor, kind: str) -> Tensor:
    """Return hidden units by the rows of weights, of which each has one a gate."""
    rows = tracer.makes(weight, 0).view(_GATES[kind], -1)
    tracer.labels.unite(rows, rows[0])
    return rows[0]


def _own_gates(tracer: Tracer, weights: list[Any], seen: Tensor, hidden: Tensor) -> None:
    """Say whose a step's weights are: of the input, of the state before, and biases."""
    w_ih, w_hh, *_ = weights
    tracer.own(w_ih, 1, seen, reads=True)
    tracer.own(w_hh, 1, hidden, reads=True)
    for weight in weights[1:]:
        tracer.own(weight, 0, tracer.makes(w_ih, 0))


RECURRENT: dict[str, Rule] = {
    **dict.fromkeys(_GATES, _recurrent),
    **{f"{kind}_cell": _cell for kind in _GATES},
}
