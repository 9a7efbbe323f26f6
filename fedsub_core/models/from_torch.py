"""Turn a ``torch.nn.Sequential`` into a Chain and its parameters: exactly, or not at all."""

from __future__ import annotations

from collections.abc import Iterator

from torch import nn

from fedsub_core.errors import ConfigError
from fedsub_core.models.architecture import Shape
from fedsub_core.models.chain import Chain
from fedsub_core.models.layers import Affine, Conv, Flatten, Layer, Linear, Pool, ReLU
from fedsub_core.models.model import Params

WITH_UNITS = (nn.Linear, nn.Conv1d, nn.Conv2d)
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
LAYERS = (nn.Linear, nn.ReLU, nn.Flatten, *WINDOWED)
SUPPORTED = ", ".join(layer.__name__ for layer in LAYERS)
#: Why what people often use is refused.
REASONS: dict[type[nn.Module], str] = {
    nn.modules.batchnorm._NormBase: "normalisation is not trained here. Leave it out",
    nn.modules.dropout._DropoutNd: "no unit is dropped in training here. Leave it out",
    nn.Softmax: "the loss takes logits, and what predicts applies softmax. Leave it out",
    nn.LogSoftmax: "the loss takes logits, and what predicts applies softmax. Leave it out",
}
#: What runs code beside a layer's own, by the attribute that holds it.
HOOKS = ("_forward_pre_hooks", "_forward_hooks", "_backward_pre_hooks", "_backward_hooks")


def from_torch(module: nn.Sequential, input_shape: Shape) -> tuple[Chain, Params]:
    """Return the model and one client's parameters, ``[1, ...]``, copied.

    The result computes what `module` computes, in training as in tests, and has its parameters.

    Raises ConfigError for a layer, or an option of one, that has no counterpart; it names the
    layer.
    """
    layers: list[Layer | Affine] = []
    params: Params = {}
    shape = input_shape
    places: dict[int, str] = {}
    for where, layer in _flat(module):
        made = _layer(where, layer, shape, len([x for x in layers if isinstance(x, Affine)]))
        layers.append(made)
        shape = made.output_shape(shape)
        if not isinstance(made, Affine):
            continue
        for name, tensor in layer.named_parameters():
            if (first := places.setdefault(id(tensor), where)) != where:
                raise _refused(where, layer, f"it shares its {name} with layer {first}")
            params[f"{made.name}.{name}"] = tensor.detach().clone().unsqueeze(0)
    if not params:
        raise ConfigError("the model has no layer with parameters: expected Linear or Conv layers")
    return Chain(tuple(layers), input_shape), params


def _flat(module: nn.Sequential) -> Iterator[tuple[str, nn.Module]]:
    """Yield every layer and where it stands; one that stands in two places comes twice."""
    for where, layer in module.named_modules(remove_duplicate=False):
        if "forward" in vars(layer) or any(getattr(layer, name) for name in HOOKS):
            raise _refused(where, layer, "it has hooks or a forward of its own")
        if not isinstance(layer, nn.Sequential):
            yield where, layer
        elif type(layer).forward is not nn.Sequential.forward:
            raise _refused(where, layer, "it has a forward of its own")


def _refused(where: str, layer: nn.Module, why: str) -> ConfigError:
    at = f"layer {where}" if where else "the model"
    return ConfigError(f"{at} ({type(layer).__name__}): {why}; supported: {SUPPORTED}")


def _tuple(value: int | tuple[int | None, ...] | None, axes: int) -> Shape:
    values = value if isinstance(value, tuple) else (value,) * axes
    return tuple(int(v) for v in values if v is not None)


def _layer(where: str, layer: nn.Module, shape: Shape, before: int) -> Layer | Affine:
    if type(layer) not in LAYERS:  # a subclass may compute something else
        reasons = (why for kind, why in REASONS.items() if isinstance(layer, kind))
        raise _refused(where, layer, next(reasons, "unknown"))
    if isinstance(layer, nn.ReLU):
        return ReLU()
    if isinstance(layer, nn.Flatten):
        if (layer.start_dim, layer.end_dim) != (1, -1):
            raise _refused(where, layer, "flattens other axes than all features")
        return Flatten()
    if isinstance(layer, WITH_UNITS) and layer.bias is None:
        raise _refused(where, layer, "it has no bias, and every layer here trains one")
    if isinstance(layer, nn.Linear):
        if shape != (layer.in_features,):
            raise _refused(where, layer, f"its input has shape {shape}: put Flatten before it")
        return Linear(f"layer{before + 1}", layer.out_features, layer.in_features)
    assert isinstance(layer, WINDOWED)
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
