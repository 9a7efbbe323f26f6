"""Turn a trained ``torch.nn.Sequential`` into a Model and its parameters."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor, nn

from fedsub_core.errors import ConfigError
from fedsub_core.models.architecture import Shape
from fedsub_core.models.chain import Model, Params
from fedsub_core.models.layers import Affine, Conv, Flatten, Layer, Linear, ReLU
from fedsub_core.models.pooling import Pool

SUPPORTED = (
    "Linear, Conv1d, Conv2d, BatchNorm1d, BatchNorm2d, ReLU, MaxPool, AvgPool and "
    "AdaptiveAvgPool (1d, 2d), Flatten, Dropout"
)

WINDOWED = (
    nn.Conv1d,
    nn.Conv2d,
    nn.MaxPool1d,
    nn.MaxPool2d,
    nn.AvgPool1d,
    nn.AvgPool2d,
    nn.AdaptiveAvgPool1d,
    nn.AdaptiveAvgPool2d,
)


def from_torch(module: nn.Sequential, input_shape: Shape) -> tuple[Model, Params]:
    """Return the model and one client's parameters, ``[1, ...]``, copied.

    The result computes what `module` computes in eval mode: batch normalisation is folded into
    the layer before it, dropout is left out.

    Raises
    ------
    ConfigError
        For a layer, or an option of one, that has no counterpart; it names the layer.
    """
    layers: list[Layer | Affine] = []
    params: Params = {}
    previous: nn.Module | None = None
    shape = input_shape
    for where, layer in _flat(module):
        if isinstance(layer, (nn.Dropout, nn.Dropout1d, nn.Dropout2d)):
            continue
        if isinstance(layer, (nn.BatchNorm1d, nn.BatchNorm2d)):
            if not isinstance(previous, (nn.Linear, nn.Conv1d, nn.Conv2d)):
                raise _refused(where, layer, "not directly after a Linear or Conv layer")
            _fold(where, layer, params, layers[-1])
        else:
            made = _layer(where, layer, shape, len([x for x in layers if isinstance(x, Affine)]))
            layers.append(made)
            shape = made.output_shape(shape)
            if isinstance(layer, (nn.Linear, nn.Conv1d, nn.Conv2d)) and isinstance(made, Affine):
                weight = layer.weight.detach().clone().unsqueeze(0)
                bias = layer.bias
                params[f"{made.name}.weight"] = weight
                params[f"{made.name}.bias"] = (
                    weight.new_zeros(1, made.units)
                    if bias is None
                    else bias.detach().clone().unsqueeze(0)
                )
        previous = layer
    if not params:
        raise ConfigError("the model has no layer with parameters: expected Linear or Conv layers")
    return Model(tuple(layers), input_shape), params


def _flat(module: nn.Sequential) -> Iterator[tuple[str, nn.Module]]:
    """Yield every layer and where it stands; one that stands in two places comes twice."""
    for where, layer in module.named_modules(remove_duplicate=False):
        if not isinstance(layer, nn.Sequential):
            yield where, layer


def _refused(where: str, layer: nn.Module, why: str) -> ConfigError:
    return ConfigError(f"layer {where} ({type(layer).__name__}): {why}; supported: {SUPPORTED}")


def _tuple(value: int | tuple[int | None, ...] | None, axes: int) -> Shape:
    values = value if isinstance(value, tuple) else (value,) * axes
    return tuple(int(v) for v in values if v is not None)


def _layer(where: str, layer: nn.Module, shape: Shape, before: int) -> Layer | Affine:
    if isinstance(layer, nn.ReLU):
        return ReLU()
    if isinstance(layer, nn.Flatten):
        if (layer.start_dim, layer.end_dim) != (1, -1):
            raise _refused(where, layer, "flattens other axes than all features")
        return Flatten()
    if isinstance(layer, nn.Linear):
        if shape != (layer.in_features,):
            raise _refused(where, layer, f"its input has shape {shape}: put Flatten before it")
        return Linear(f"layer{before + 1}", layer.out_features, layer.in_features)
    if not isinstance(layer, WINDOWED):
        raise _refused(where, layer, "unknown")
    axes = 1 if type(layer).__name__.endswith("1d") else 2
    if len(shape) != axes + 1:
        raise _refused(where, layer, f"its input has shape {shape}, expected {axes + 1} axes")
    if isinstance(layer, (nn.Conv1d, nn.Conv2d)):
        return _convolution(where, layer, shape, before)
    if isinstance(layer, (nn.MaxPool1d, nn.MaxPool2d)):
        if layer.ceil_mode or layer.return_indices or set(_tuple(layer.dilation, axes)) != {1}:
            raise _refused(where, layer, "ceil_mode, return_indices or dilation is set")
        return _window("max", layer, axes)
    if isinstance(layer, (nn.AvgPool1d, nn.AvgPool2d)):
        divisor = getattr(layer, "divisor_override", None)
        if layer.ceil_mode or not layer.count_include_pad or divisor is not None:
            raise _refused(where, layer, "ceil_mode, count_include_pad or divisor_override is set")
        return _window("avg", layer, axes)
    size = _tuple(layer.output_size, axes)
    if len(size) != axes:
        raise _refused(where, layer, "an output size is None")
    return Pool("adaptive-avg", size)


def _window(kind: str, layer: nn.Module, axes: int) -> Pool:
    size, stride = _tuple(layer.kernel_size, axes), _tuple(layer.stride, axes)  # type: ignore[arg-type]
    return Pool(kind, size, stride, _tuple(layer.padding, axes))  # type: ignore[arg-type]


def _convolution(where: str, layer: nn.Conv1d | nn.Conv2d, shape: Shape, before: int) -> Conv:
    if layer.groups != 1 or set(layer.dilation) != {1} or layer.padding_mode != "zeros":
        raise _refused(where, layer, "groups, dilation or padding_mode is set")
    if isinstance(layer.padding, str):
        raise _refused(where, layer, f"padding={layer.padding!r}: give it as numbers")
    if shape[0] != layer.in_channels:
        raise _refused(where, layer, f"its input has {shape[0]} channels, not {layer.in_channels}")
    return Conv(
        f"layer{before + 1}",
        layer.out_channels,
        layer.in_channels,
        tuple(layer.kernel_size),
        tuple(layer.stride),
        tuple(layer.padding),
    )


def _fold(
    where: str, norm: nn.BatchNorm1d | nn.BatchNorm2d, params: Params, into: Layer | Affine
) -> None:
    """Scale and shift the rows of the layer before, as the normalisation would its outputs."""
    if norm.running_mean is None or norm.running_var is None:
        raise _refused(where, norm, "it keeps no running statistics")
    assert isinstance(into, Affine)
    weight, bias = f"{into.name}.weight", f"{into.name}.bias"
    scale: Tensor = torch.rsqrt(norm.running_var + norm.eps)
    if norm.affine:
        scale = scale * norm.weight.detach()
    params[weight] = params[weight] * scale.view(1, -1, *[1] * (params[weight].dim() - 2))
    params[bias] = (params[bias] - norm.running_mean) * scale
    if norm.affine:
        params[bias] = params[bias] + norm.bias.detach()
