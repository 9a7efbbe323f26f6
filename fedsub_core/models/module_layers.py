"""Layers of a module that have units, and all that a unit owns.

A unit is an output of a Linear layer, a channel that a convolution makes, or a hidden unit of an
LSTM, GRU or RNN of one direction. It owns its row of the layer's weights and its bias, and its
numbers in the norm right behind the layer: what relevance sees as one layer, folded. Other trained
tensors are no unit's.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod

import torch
from torch import Tensor, nn

from fedsub_core.errors import ConfigError
from fedsub_core.models.architecture import LayerWithUnits, Shape, UnitRows
from fedsub_core.models.following import Following, Made
from fedsub_core.models.traced import zeros

#: Samples of the pass in which layers are found.
SAMPLES = 2


@dataclass(frozen=True)
class ModuleLayer(LayerWithUnits):
    """A layer of a module, and its rows."""

    shape: Shape
    owned: tuple[UnitRows, ...]

    @property
    def weight_shape(self) -> Shape:
        """``[units, *kernel]``; of a recurrent layer what stands in the first rows, one a unit."""
        return self.shape

    @property
    def rows(self) -> tuple[UnitRows, ...]:
        """All that a unit owns: of the layer itself, and of each tensor of the norm behind it."""
        return self.owned


def module_layers(
    module: nn.Module, input_shape: Shape, exchanged: Mapping[str, Shape], last: str
) -> tuple[ModuleLayer, ...]:
    """Return the layers with units in the order in which they compute for the last time.

    Parameters
    ----------
    exchanged : shapes of the tensors that travel. Others, such as those of frozen layers and of
        norms that stay at home, are no unit's.
    last : name of the last Linear layer.

    Raises ConfigError if a layer with units does not see samples on the first axis, or the last
    Linear layer has no weights of its own.
    """
    # Of a copy, as hooks and norms may change what they see.
    own = copy.deepcopy(module).eval()
    found = _Found({**dict(own.named_parameters()), **dict(own.named_buffers())})
    with torch.no_grad(), found:
        own(zeros(input_shape, SAMPLES))
    layers = []
    for layer, (made, gates, tensors, norm) in found.layers.items():
        if made.out.shape[0] != SAMPLES:
            raise ConfigError(
                f"model {type(module).__name__}, layer {layer}: got outputs of shape "
                f"{list(made.out.shape)} of {SAMPLES} samples, expected samples on the first axis: "
                "whose units matter for a class is seen of each sample"
            )
        units = made.out.shape[made.axis]
        mine = [name for name in tensors if name in exchanged]
        if f"{layer}.weight" not in mine and mine != list(tensors):
            continue  # frozen, in whole or in part
        first = exchanged[mine[0]]
        shape = (units, *first[1:-1], first[-1] * gates) if len(first) > 1 else (units,)
        width = sum(prod(exchanged[name]) for name in mine) // units
        # By the tensor, not the layer: a method's own tensors have plain names, such as `classes`.
        rows = [UnitRows(mine[0], tuple(mine), width, gates)]
        rows += [UnitRows(name, (name,), 1) for name in norm if exchanged.get(name, ()) == (units,)]
        layers.append(ModuleLayer(layer, units, shape, tuple(rows)))
    if not layers or layers[-1].name != last:
        raise ConfigError(
            f"model {type(module).__name__}, layer {last}: got weights that are computed, expected "
            "a parameter: a unit owns its row of it"
        )
    return tuple(layers)


class _Found(Following):
    """What each layer made, its gates, its tensors, and those of the norm behind it, by layer."""

    def __init__(self, tensors: Mapping[str, Tensor]) -> None:
        super().__init__(tensors)
        self.layers: dict[str, tuple[Made, int, Sequence[str], Sequence[str]]] = {}

    def made(self, made: Made, tensors: Sequence[str], new: bool, gates: int = 1) -> None:
        """Take note of a layer and, behind it, of a norm."""
        before = self.layers.get(made.layer)
        norm: Sequence[str] = before[3] if before else ()
        if new:
            # Behind those that computed before it; its norm, in whatever pass it was, is the same.
            self.layers.pop(made.layer, None)
            self.layers[made.layer] = made, gates, tensors, norm
        elif before is not None:
            self.layers[made.layer] = (*before[:3], tensors or norm)
