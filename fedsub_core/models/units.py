"""Sub-models: the same chain with some of its units, and their way there and back.

A unit is an output neuron or an output channel. The inputs of a layer follow the units of the
layer before it: behind ``Flatten`` channel u owns the inputs ``u * p`` to ``u * p + p - 1``, where
p is the number of positions. Source: Diao et al., HeteroFL, ICLR 2021, section 3 (nested units);
here any choice of units.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import ceil, prod

import torch
from torch import Tensor

from fedsub_core.errors import ConfigError
from fedsub_core.models.chain import Model, Params
from fedsub_core.models.layers import Affine, Conv, Layer, Linear

#: Layer name to the units that are kept, int64, ascending. Layers that are not named keep all.
Units = Mapping[str, Tensor]


@dataclass(frozen=True)
class Cut:
    """What one layer keeps: int64 indices of its units and of its inputs (columns, channels)."""

    layer: Affine
    units: Tensor
    inputs: Tensor


def first_units(model: Model, share: float) -> Units:
    """Return the first ``max(1, ceil(share * units))`` units of every hidden layer."""
    # 0.7 * 10 is 7.000000000000001 in floating point, and must not become 8.
    sizes = {layer.name: ceil(share * layer.units - 1e-9) for layer in model.affine[:-1]}
    return {name: torch.arange(max(1, size)) for name, size in sizes.items()}


def cuts(model: Model, units: Units) -> list[Cut]:
    """Return what every layer with units keeps, from input to output.

    Raises
    ------
    ConfigError
        If a layer is unknown, keeps nothing, or its units do not ascend or do not exist; or if
        outputs of the last layer are left out, which are the classes.
    """
    known = {layer.name: layer for layer in model.affine}
    for name, kept in units.items():
        if name not in known:
            raise ConfigError(f"units of layer {name!r}: expected one of {', '.join(known)}")
        most = known[name].units
        ascending = bool((kept.diff() > 0).all()) and len(kept) > 0
        if not ascending or int(kept[0]) < 0 or int(kept[-1]) >= most:
            raise ConfigError(
                f"units of layer {name}: got {kept.tolist()}, expected ascending ones below {most}"
            )
    last = model.affine[-1]
    if last.name in units and len(units[last.name]) != last.units:
        raise ConfigError(f"units of layer {last.name}: its outputs are the classes, keep all")
    channels = model.input_shape[0]
    found, before = [], torch.arange(channels)
    for layer in model.layers:
        if isinstance(layer, Affine):
            kept = units.get(layer.name, torch.arange(layer.units))
            inputs = layer.inputs if isinstance(layer, Linear) else layer.weight_shape[1]
            positions = inputs // channels
            columns = (before[:, None] * positions + torch.arange(positions)).flatten()
            found.append(Cut(layer, kept, columns))
            before, channels = kept, layer.units
    return found


def slice_model(model: Model, units: Units) -> Model:
    """Return the chain with these units alone, and the inputs that follow."""
    smaller = {cut.layer.name: _smaller(cut) for cut in cuts(model, units)}
    layers = tuple(
        smaller[layer.name] if isinstance(layer, Affine) else layer for layer in model.layers
    )
    return replace(model, layers=layers)


def slice_params(model: Model, params: Params, units: Units) -> Params:
    """Return the parameters ``[clients, ...]`` of :func:`slice_model`, copied."""
    sliced: Params = {}
    for cut in cuts(model, units):
        weight, bias = f"{cut.layer.name}.weight", f"{cut.layer.name}.bias"
        sliced[weight] = params[weight][:, cut.units][:, :, cut.inputs]
        sliced[bias] = params[bias][:, cut.units]
    return sliced


def place_back(model: Model, params: Params, units: Units, sliced: Params) -> Params:
    """Return `params` with the numbers of a sub-model in their places; inverse of slicing."""
    whole = {name: tensor.clone() for name, tensor in params.items()}
    for cut in cuts(model, units):
        weight, bias = f"{cut.layer.name}.weight", f"{cut.layer.name}.bias"
        whole[weight][:, cut.units[:, None], cut.inputs] = sliced[weight]
        whole[bias][:, cut.units] = sliced[bias]
    return whole


def held(model: Model, units: Units) -> dict[str, Tensor]:
    """Return which numbers of each parameter a sub-model holds, bool and of the tensor's shape."""
    masks = {}
    for cut in cuts(model, units):
        weight = torch.zeros(cut.layer.weight_shape, dtype=torch.bool)
        weight[cut.units[:, None], cut.inputs] = True
        bias = torch.zeros(cut.layer.units, dtype=torch.bool)
        bias[cut.units] = True
        masks[f"{cut.layer.name}.weight"], masks[f"{cut.layer.name}.bias"] = weight, bias
    return masks


def count(model: Model, units: Units) -> int:
    """Return how many numbers a sub-model has."""
    return sum(prod(shape) for shape in slice_model(model, units).parameter_shapes.values())


def _smaller(cut: Cut) -> Layer | Affine:
    units, inputs = len(cut.units), len(cut.inputs)
    if isinstance(cut.layer, Linear):
        return replace(cut.layer, units=units, inputs=inputs)
    assert isinstance(cut.layer, Conv)
    return replace(cut.layer, units=units, channels=inputs)
