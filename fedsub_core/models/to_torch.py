"""A model and one client's parameters as PyTorch's layers."""

from __future__ import annotations

from collections.abc import Callable

from torch import nn

from fedsub_core.models.chain import Chain, require_chain
from fedsub_core.models.layers import Affine, Conv, Flatten, Layer, Linear, Pool, ReLU
from fedsub_core.models.model import Model, Params
from fedsub_core.models.torch_model import TorchModel

_CONVS: dict[int, Callable[..., nn.Conv1d | nn.Conv2d]] = {1: nn.Conv1d, 2: nn.Conv2d}
_POOLS: dict[tuple[str, int], Callable[..., nn.Module]] = {
    ("max", 1): nn.MaxPool1d,
    ("max", 2): nn.MaxPool2d,
    ("avg", 1): nn.AvgPool1d,
    ("avg", 2): nn.AvgPool2d,
    ("adaptive-avg", 1): nn.AdaptiveAvgPool1d,
    ("adaptive-avg", 2): nn.AdaptiveAvgPool2d,
}


def to_torch(model: Model, params: Params) -> nn.Module:
    """Return `model` as a PyTorch module, ``x [batch, *features]`` to logits, in evaluation mode.

    `params` are one client's, without a client axis; they are copied.
    """
    if isinstance(model, TorchModel):
        return model.as_module(params)
    return chain_to_torch(require_chain(model), params)


def chain_to_torch(model: Chain, params: Params) -> nn.Sequential:
    """Return `model` as PyTorch's layers.

    Inverse of :func:`fedsub_core.models.from_torch.from_torch`, for `params` without a client axis.
    """
    layers = nn.Sequential()
    for i, layer in enumerate(model.layers):
        name = layer.name if isinstance(layer, Affine) else f"{type(layer).__name__}{i}".lower()
        layers.add_module(name, _module(layer, params))
    return layers


def _module(layer: Layer | Affine, params: Params) -> nn.Module:
    if isinstance(layer, ReLU):
        return nn.ReLU()
    if isinstance(layer, Flatten):
        return nn.Flatten()
    if isinstance(layer, Pool):
        pool = _POOLS[layer.kind, len(layer.size)]
        if layer.kind == "adaptive-avg":
            return pool(layer.size)
        return pool(layer.size, layer.stride or layer.size, layer.padding or 0)
    module: nn.Linear | nn.Conv1d | nn.Conv2d
    # Without storage of its own: nothing is drawn from PyTorch's global stream.
    if isinstance(layer, Linear):
        module = nn.Linear(layer.inputs, layer.units, device="meta")
    else:
        assert isinstance(layer, Conv)
        conv = _CONVS[len(layer.kernel)]
        window = layer.kernel, layer.stride, layer.padding
        module = conv(layer.channels, layer.units, *window, device="meta")
    for part in ("weight", "bias"):
        values = params[f"{layer.name}.{part}"].detach().clone()
        setattr(module, part, nn.Parameter(values, requires_grad=False))
    return module
