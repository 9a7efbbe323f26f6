"""Sub-models: the same chain with some of its units, and their way there and back.

A unit is an output neuron or an output channel. The inputs of a layer follow the units of the
layer before it: behind ``Flatten`` channel u owns the inputs ``u * p`` to ``u * p + p - 1``, where
p is the number of positions. Source: Diao et al., HeteroFL, ICLR 2021, section 3 (nested units);
here any choice of units.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from math import ceil

import numpy as np
import torch
from torch import Tensor

from fedsub_core.errors import ConfigError
from fedsub_core.models.chain import Chain
from fedsub_core.models.layers import Affine, Conv, Layer, Linear
from fedsub_core.placement import Placement, owned

#: Layer name to the units that are kept, int64, ascending. Layers that are not named keep all.
Units = Mapping[str, Tensor]


def first_units(model: Chain, share: float) -> Units:
    """Return the first ``max(1, ceil(share * units))`` units of every hidden layer."""
    # 0.7 * 10 is 7.000000000000001 in floating point, and must not become 8.
    sizes = {layer.name: ceil(share * layer.units - 1e-9) for layer in model.affine[:-1]}
    return {name: torch.arange(max(1, size)) for name, size in sizes.items()}


def narrow(model: Chain, units: Units) -> tuple[Chain, dict[str, Placement]]:
    """Return the chain with these units alone, and where its numbers stand in the whole one's.

    Raises
    ------
    ConfigError
        If a layer is unknown, keeps nothing, or its units do not ascend or do not exist; or if
        outputs of the last layer are left out, which are the classes.
    """
    _check(model, units)
    channels = model.input_shape[0]
    layers: list[Layer | Affine] = []
    places: dict[str, Placement] = {}
    inputs = np.arange(channels)
    for layer in model.layers:
        if not isinstance(layer, Affine):
            layers.append(layer)
            continue
        kept = units[layer.name].numpy() if layer.name in units else np.arange(layer.units)
        columns = owned(inputs, layer.weight_shape[1] // channels)
        places[f"{layer.name}.weight"] = Placement(kept, columns)
        places[f"{layer.name}.bias"] = Placement(kept)
        layers.append(_smaller(layer, len(kept), len(columns)))
        inputs, channels = kept, layer.units
    return replace(model, layers=tuple(layers)), places


def _check(model: Chain, units: Units) -> None:
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


def _smaller(layer: Affine, units: int, inputs: int) -> Affine:
    if isinstance(layer, Linear):
        return replace(layer, units=units, inputs=inputs)
    assert isinstance(layer, Conv)
    return replace(layer, units=units, channels=inputs)
