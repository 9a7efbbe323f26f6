"""What a model is made of, as far as shapes go: what methods' cards need, and no PyTorch.

A :class:`fedsub_core.models.chain.Model` is an architecture that computes.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection
from dataclasses import dataclass
from functools import cached_property
from math import prod

from fedsub_core.errors import ConfigError

Shape = tuple[int, ...]


@dataclass(frozen=True)
class LayerWithUnits(ABC):
    """A layer that has parameters: weights and a bias for each of its units."""

    name: str
    units: int

    @property
    @abstractmethod
    def weight_shape(self) -> Shape:
        """``[units, *kernel]`` of one client."""

    @property
    def fan_in(self) -> int:
        """Weights of one unit."""
        return prod(self.weight_shape[1:])


@dataclass(frozen=True)
class FullyConnected(LayerWithUnits):
    """Every unit sees all inputs."""

    inputs: int

    @property
    def weight_shape(self) -> Shape:
        """``[units, inputs]``."""
        return (self.units, self.inputs)


@dataclass(frozen=True)
class Architecture:
    """A chain of layers for inputs of shape `input_shape`."""

    layers: tuple[object, ...]
    input_shape: Shape

    @cached_property
    def affine(self) -> tuple[LayerWithUnits, ...]:
        """The layers that have units, from input to output."""
        return tuple(layer for layer in self.layers if isinstance(layer, LayerWithUnits))

    @cached_property
    def classes(self) -> int:
        """Outputs of the last layer."""
        return self.affine[-1].units

    @cached_property
    def embedding_size(self) -> int:
        """Length of an embedding: the input of the last layer with units."""
        return self.affine[-1].fan_in

    def head(self, layers: int = 1) -> tuple[str, ...]:
        """Names of the last `layers` layers with units: the head; the others are the body.

        Raises
        ------
        ConfigError
            If either would be empty.
        """
        if not 0 < layers < len(self.affine):
            raise ConfigError(
                f"head: got {layers} layers, expected 1 to {len(self.affine) - 1} of the model's "
                f"{len(self.affine)} with units: body and head both need one"
            )
        return tuple(layer.name for layer in self.affine[-layers:])

    def body(self, head_layers: int = 1) -> tuple[str, ...]:
        """Names of the layers with units before the head; raises as :meth:`head`."""
        head = self.head(head_layers)
        return tuple(layer.name for layer in self.affine if layer.name not in head)

    def parameters_of(self, layers: Collection[str]) -> tuple[str, ...]:
        """Names of the parameters of some layers, in the order of the model."""
        return tuple(name for name in self.parameter_shapes if name.rpartition(".")[0] in layers)

    @cached_property
    def parameter_shapes(self) -> dict[str, Shape]:
        """Shape of every parameter of one client."""
        shapes: dict[str, Shape] = {}
        for layer in self.affine:
            shapes[f"{layer.name}.weight"] = layer.weight_shape
            shapes[f"{layer.name}.bias"] = (layer.units,)
        return shapes

    @cached_property
    def full_bytes(self) -> int:
        """Bytes of one client's parameters in float32: the papers' "Full Model"."""
        return 4 * sum(prod(shape) for shape in self.parameter_shapes.values())
