"""Units of a chain, known from its layers alone, and the chain that has some of them.

The inputs of a layer follow the units of the layer before it: behind ``Flatten`` channel u owns the
inputs ``u * p`` to ``u * p + p - 1``, where p is the number of positions.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from fedsub_core.models.architecture import Shape
from fedsub_core.models.layers import Affine, Conv, Layer, Linear
from fedsub_core.models.units import Member, UnitGroup
from fedsub_core.placement import Placement


def group_of(layer: Affine, readers: Iterable[Affine]) -> UnitGroup:
    """Return the units of a layer whose outputs the `readers` see."""
    each = np.arange(layer.units)
    members = [Member(f"{layer.name}.{part}", 0, each) for part in ("weight", "bias")]
    for reader in readers:
        positions = reader.weight_shape[1] // layer.units
        members.append(Member(f"{reader.name}.weight", 1, each.repeat(positions), reads=True))
    return UnitGroup(layer.name, layer.units, tuple(members))


def narrowed(
    layers: Sequence[Layer | Affine], places: Mapping[str, Placement]
) -> tuple[Layer | Affine, ...]:
    """Return the layers with as many units and inputs as are placed."""
    made: list[Layer | Affine] = []
    for layer in layers:
        if isinstance(layer, Affine):
            layer = _sized(layer, places[f"{layer.name}.weight"].shape(layer.weight_shape))
        made.append(layer)
    return tuple(made)


def _sized(layer: Affine, shape: Shape) -> Affine:
    if isinstance(layer, Linear):
        return replace(layer, units=shape[0], inputs=shape[1])
    assert isinstance(layer, Conv)
    return replace(layer, units=shape[0], channels=shape[1])
