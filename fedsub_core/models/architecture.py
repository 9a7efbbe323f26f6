"""What a model is made of, as far as shapes go: what methods' cards need, and no PyTorch.

A :class:`fedsub_core.models.model.Model` is an architecture that computes.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import cached_property
from math import prod

from fedsub_core.errors import ConfigError

Shape = tuple[int, ...]


@dataclass(frozen=True)
class UnitRows:
    """Tensors that go by a layer's units: side by side they hold a row for each unit.

    Parameters
    ----------
    name : of the rows, where they travel.
    gates : how often the units follow each other on the first axis of each tensor.
    """

    name: str
    tensors: tuple[str, ...]
    width: int
    gates: int = 1


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

    @property
    def rows(self) -> tuple[UnitRows, ...]:
        """All that a unit owns: here its weights and its bias, side by side."""
        tensors = f"{self.name}.weight", f"{self.name}.bias"
        return (UnitRows(self.name, tensors, self.fan_in + 1),)


@dataclass(frozen=True)
class FullyConnected(LayerWithUnits):
    """Every unit sees all inputs."""

    inputs: int

    @property
    def weight_shape(self) -> Shape:
        """``[units, inputs]``."""
        return (self.units, self.inputs)


class Architecture(ABC):
    """Named tensors of one client by their shapes, and which of them are whose."""

    #: Shape of one sample.
    input_shape: Shape

    @property
    @abstractmethod
    def affine(self) -> tuple[LayerWithUnits, ...]:
        """The layers that have units, from input to output.

        Raises ConfigError if units of this model are not known.
        """

    @property
    @abstractmethod
    def parameter_shapes(self) -> Mapping[str, Shape]:
        """Shape of every tensor that methods exchange."""

    @property
    def home_shapes(self) -> Mapping[str, Shape]:
        """Shape of every tensor that each client keeps for itself, whatever the method."""
        return {}

    @cached_property
    def tensor_shapes(self) -> dict[str, Shape]:
        """Shape of every tensor of one client."""
        return {**self.parameter_shapes, **self.home_shapes}

    @property
    def trained(self) -> tuple[str, ...]:
        """Names of the tensors that gradients move; other tensors follow from the samples."""
        return tuple(self.tensor_shapes)

    @property
    @abstractmethod
    def layer_names(self) -> tuple[str, ...]:
        """Names of the layers that a head and a body are made of, from input to output."""

    @property
    def classes(self) -> int:
        """Outputs of the last layer."""
        return self.affine[-1].units

    @property
    def embedding_size(self) -> int:
        """Length of an embedding: the input of the last layer with units."""
        return self.affine[-1].fan_in

    def head(self, layers: int = 1) -> tuple[str, ...]:
        """Names of the last `layers` layers with units: the head; the others are the body.

        Raises ConfigError if either would be empty.
        """
        names = self.layer_names
        if not 0 < layers < len(names):
            raise ConfigError(
                f"head: got {layers} layers, expected 1 to {len(names) - 1} of the model's "
                f"{len(names)} with units: body and head both need one"
            )
        return names[-layers:]

    def body(self, head_layers: int = 1) -> tuple[str, ...]:
        """Names of the layers with tensors before the head; raises as :meth:`head`."""
        head = self.head(head_layers)
        layers = dict.fromkeys(name.rpartition(".")[0] for name in self.tensor_shapes)
        return tuple(name for name in layers if name not in head)

    def parameters_of(self, layers: Collection[str]) -> tuple[str, ...]:
        """Names of the exchanged tensors of some layers, in the order of the model."""
        return tuple(name for name in self.parameter_shapes if name.rpartition(".")[0] in layers)

    def trained_of(self, layers: Collection[str] | None) -> tuple[str, ...]:
        """Names of what gradients move of some layers, None: of all, in the order of the model."""
        if layers is None:
            return self.trained
        return tuple(name for name in self.trained if name.rpartition(".")[0] in layers)

    @cached_property
    def full_bytes(self) -> int:
        """Bytes of one client's exchanged tensors in float32: the papers' "Full Model"."""
        return 4 * sum(prod(shape) for shape in self.parameter_shapes.values())


@dataclass(frozen=True)
class Layers(Architecture):
    """A chain of layers for inputs of shape `input_shape`."""

    layers: tuple[object, ...]
    input_shape: Shape

    @cached_property
    def affine(self) -> tuple[LayerWithUnits, ...]:
        """The layers that have units, from input to output."""
        return tuple(layer for layer in self.layers if isinstance(layer, LayerWithUnits))

    @cached_property
    def layer_names(self) -> tuple[str, ...]:
        """Names of the layers that have units."""
        return tuple(layer.name for layer in self.affine)

    @cached_property
    def parameter_shapes(self) -> dict[str, Shape]:
        """Shape of every parameter of one client."""
        shapes: dict[str, Shape] = {}
        for layer in self.affine:
            shapes[f"{layer.name}.weight"] = layer.weight_shape
            shapes[f"{layer.name}.bias"] = (layer.units,)
        return shapes
