"""Modules with some of their units: the same layers with smaller tensors, which compute less."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _NormBase
from torch.nn.modules.conv import _ConvNd

from fedsub_core.errors import ConfigError
from fedsub_core.models.architecture import Shape
from fedsub_core.models.coupling.groups import sharing
from fedsub_core.models.drawing import Builder, drawing
from fedsub_core.models.drawn_in_part import drawn_in_part
from fedsub_core.models.repeated import Repeated
from fedsub_core.models.traced import Trace, traced
from fedsub_core.models.units import UnitGroup
from fedsub_core.placement import Placement

if TYPE_CHECKING:
    from fedsub_core.models.torch_model import TorchModel


@dataclass(frozen=True)
class Narrowed:
    """A builder of a module with some of its units: of what another builder draws."""

    build: Builder
    places: Mapping[str, Placement]
    groups: tuple[UnitGroup, ...]

    def __call__(self, input_shape: Shape, classes: int) -> nn.Module:
        """Draw what the whole module has at the places, whatever it has elsewhere."""
        return drawn_at(self.build, self.places, input_shape, classes)


def drawn_at(
    build: Builder, places: Mapping[str, Placement], input_shape: Shape, classes: int
) -> nn.Module:
    """Return a module with the numbers at their places alone, drawn from PyTorch's stream.

    Where it can be, no more is held than one whole tensor at a time.
    """
    part = None
    if not isinstance(build, Narrowed):
        part = drawn_in_part(build, input_shape, classes, lambda n, _, drawn: _at(places, n, drawn))
    if part is not None:
        return replaced(part[0], lambda name, tensor: part[1][id(tensor)])
    module = build(input_shape, classes)
    traced(module, input_shape, classes)  # lazy layers get their parameters here
    return narrowed(module, places)


def hollow(
    build: Builder, input_shape: Shape, classes: int, seed: int
) -> tuple[nn.Module, Trace] | None:
    """Return a module whose trained tensors repeat one number each, and so take no memory.

    Its shapes and constants are those of the whole one, with PyTorch's stream at `seed`. None where
    that one must be built.
    """

    def keep(name: str, own: Tensor, drawn: Tensor) -> Tensor:
        few = drawn.flatten()[:1].reshape((1,) * own.ndim) if own.requires_grad else drawn
        return few.clone()

    with drawing(seed):
        part = drawn_in_part(build, input_shape, classes, keep)
    if part is None:
        return None
    module = replaced(part[0], lambda name, tensor: part[1][id(tensor)].expand(tensor.shape))
    with torch.no_grad(), Repeated():
        return module, retraced(module, input_shape, classes)


def with_units(model: TorchModel, places: Mapping[str, Placement]) -> tuple[nn.Module, Trace]:
    """Return a model's module with the numbers at their places alone, and its trace.

    Raises ConfigError if its pass fails now, as where it has sizes written into it.
    """
    shape, classes = model.input_shape, model.classes
    if model.hollow is None:
        module = narrowed(model.module, places)
    else:
        with drawing(model.hollow):
            module = drawn_at(model.build, places, shape, classes)
    return module, retraced(module, shape, classes)


def without_layer(module: nn.Module, name: str) -> nn.Module:
    """Return a copy of the module in which a layer passes on what it sees."""
    body = copy.deepcopy(module)
    parent, _, own = name.rpartition(".")
    setattr(body.get_submodule(parent), own, nn.Identity())
    return body


def narrowed(module: nn.Module, places: Mapping[str, Placement]) -> nn.Module:
    """Return a module of its own with the numbers at their places alone; others are kept whole."""
    return replaced(module, lambda name, tensor: _at(places, name, tensor.detach()))


def _at(places: Mapping[str, Placement], name: str, tensor: Tensor) -> Tensor:
    return places[name].take(tensor).clone() if name in places else tensor.clone()


def replaced(module: nn.Module, values: Callable[[str, Tensor], Tensor]) -> nn.Module:
    """Return a copy of a module with other numbers, of a tensor's name and the tensor."""
    small = sharing(module)
    made: dict[int, Tensor] = {}
    own = [
        *module.named_parameters(remove_duplicate=False),
        *module.named_buffers(remove_duplicate=False),
    ]
    for name, tensor in own:
        parent, _, attribute = name.rpartition(".")
        if id(tensor) not in made:  # a tied tensor stays one
            taken = values(name, tensor)
            if isinstance(tensor, nn.Parameter):
                taken = nn.Parameter(taken, tensor.requires_grad)
            made[id(tensor)] = taken
        setattr(small.get_submodule(parent), attribute, made[id(tensor)])
    for layer in small.modules():
        _resize(layer)
    return small


def retraced(module: nn.Module, input_shape: Shape, classes: int) -> Trace:
    """Return the trace of a module with fewer units.

    Raises ConfigError if its pass fails now, as where it has sizes written into it.
    """
    try:
        with drawing(0):  # Dropout in a pass of the trace draws
            return traced(module, input_shape, classes)
    except ConfigError as error:
        raise ConfigError(
            f"{error}: so with some of its units. Expected a forward pass that takes sizes from "
            "its tensors, as x.flatten(1) or x.shape"
        ) from error


def _resize(layer: nn.Module) -> None:
    """Set the sizes that a layer keeps beside its tensors."""
    if isinstance(layer, nn.Linear):
        layer.out_features, layer.in_features = layer.weight.shape
    elif isinstance(layer, _ConvNd):
        weight: Tensor = layer.weight
        made, read = weight.shape[:2][:: -1 if layer.transposed else 1]
        if layer.groups > 1:
            layer.groups = layer.groups * made // layer.out_channels
        layer.out_channels, layer.in_channels = made, read * layer.groups
    elif isinstance(layer, _NormBase) and layer.affine:
        layer.num_features = len(layer.weight)
    elif isinstance(layer, nn.GroupNorm) and layer.affine:
        channels = len(layer.weight)
        layer.num_groups = max(1, layer.num_groups * channels // layer.num_channels)
        layer.num_channels = channels
    elif isinstance(layer, (nn.LayerNorm, nn.RMSNorm)) and layer.elementwise_affine:
        layer.normalized_shape = tuple(layer.weight.shape)
    elif isinstance(layer, (nn.Embedding, nn.EmbeddingBag)):
        layer.num_embeddings, layer.embedding_dim = layer.weight.shape
    elif isinstance(layer, (nn.RNNBase, nn.RNNCellBase)):
        first = "_l0" if isinstance(layer, nn.RNNBase) else ""
        layer.input_size = layer.get_parameter(f"weight_ih{first}").shape[1]
        layer.hidden_size = layer.get_parameter(f"weight_hh{first}").shape[1]
    elif isinstance(layer, nn.PReLU):
        layer.num_parameters = len(layer.weight)
