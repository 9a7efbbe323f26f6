"""Models over stacks of clients: a chain of layers, applied to named, stacked parameters."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from itertools import pairwise
from math import prod, sqrt
from typing import Any

import numpy as np

from fedsub_core.backend import for_passes
from fedsub_core.data.samples import Nodes, Tokens
from fedsub_core.errors import ConfigError, RunError
from fedsub_core.extras import lacking
from fedsub_core.kernels import chains
from fedsub_core.kernels.known import Known, known
from fedsub_core.models.architecture import Layers, Shape
from fedsub_core.models.layers import Affine, Conv, Flatten, Layer, Linear, Pool, ReLU
from fedsub_core.models.model import Model, Params, Pass
from fedsub_core.models.units import Member, UnitGroup, Units, placements
from fedsub_core.placement import Placement
from fedsub_core.pytorch import Tensor, as_tensor
from fedsub_core.seeds import Shares


@dataclass(frozen=True)
class Step:
    """Input and output of one layer; of a layer with units, also what each of them sees."""

    x: Tensor
    out: Tensor
    patches: Tensor | None


def require_chain(
    model: Model, why: str = "this method looks at a model layer by layer, from input to output"
) -> Chain:
    """Return the model, which is a chain; `why` it must be one.

    Raises ConfigError if it is another kind of model.
    """
    if not isinstance(model, Chain):
        others = isinstance(model.input_shape, (Nodes, Tokens))
        raise ConfigError(
            f"got a {type(model).__name__}, expected a chain such as mlp or cnn1d: {why}"
            f"{'. No chain takes token ids or a graph' * others}"
        )
    return model


@dataclass(frozen=True)
class Chain(Layers, Model):
    """A chain of layers for inputs of shape `input_shape`; it holds no parameters itself.

    Parameters of a stack of clients are a dict: ``"<layer>.weight" [clients, units, *kernel]`` and
    ``"<layer>.bias" [clients, units]``, in the order of the layers.
    """

    layers: tuple[Layer | Affine, ...]
    input_shape: Shape

    @cached_property
    def affine(self) -> tuple[Affine, ...]:
        """The layers that have units, from input to output."""
        return tuple(layer for layer in self.layers if isinstance(layer, Affine))

    @cached_property
    def known(self) -> tuple[Known, ...]:
        """The layers as compiled kernels know them; () where they do not know them all."""
        return known(self.layers, self.input_shape)

    @cached_property
    def output_shape(self) -> Shape:
        """Shape of what the model makes of one sample."""
        shape = self.input_shape
        for layer in self.layers:
            shape = layer.output_shape(shape)
        return shape

    @cached_property
    def embedding_at(self) -> int:
        """Place in the chain of the layer whose input is the embedding."""
        return self.layers.index(self.affine[-1])

    @property
    def path(self) -> Chain:
        """The chain alone, from the samples to its own end; what branches off is left out."""
        return self

    @property
    def branches(self) -> tuple[tuple[int, Chain], ...]:
        """What else reads the output of a layer: after how many layers, and the chain."""
        return ()

    def cut(self, head_layers: int = 1) -> tuple[Chain, Chain]:
        """Return two models: the body, and the head, which begins with the last layers with units.

        What lies between two layers with units (activation, pooling) is the body's. `head_layers`
        is from 1 to the number of layers with units; :meth:`head` refuses what leaves no body.
        """
        at = self.layers.index(self.affine[-head_layers])
        body = Chain(self.layers[:at], self.input_shape)
        return body, Chain(self.layers[at:], body.output_shape)

    @cached_property
    def unit_groups(self) -> tuple[UnitGroup, ...]:
        """The units of each hidden layer."""
        return tuple(group_of(layer, [reader]) for layer, reader in pairwise(self.affine))

    def narrow(self, units: Units) -> tuple[Chain, Mapping[str, Placement]]:
        """Return the chain with these units alone, and where its numbers stand in this one's."""
        places = placements(self.unit_groups, self.parameter_shapes, units)
        return replace(self, layers=narrowed(self.layers, places)), places

    @cached_property
    def widest(self) -> int:
        """Values of a sample at its widest, what convolutions see of it included."""
        shape, widest = self.input_shape, 1
        for layer in self.layers:
            if isinstance(layer, Affine):
                widest = max(widest, layer.fan_in * prod(layer.output_shape(shape)[1:]))
            shape = layer.output_shape(shape)
            widest = max(widest, prod(shape))
        return widest

    def init(self, clients: int, seed: int) -> Params:
        """Draw one model and give every client a copy of it.

        Uniform in +-1/sqrt(fan_in), as PyTorch initialises linear and convolutional layers.
        """
        stream = Shares(seed, "", 0, "model")
        params: Params = {}
        for layer in self.affine:
            bound = 1 / sqrt(layer.fan_in)
            for part, shape in (("weight", layer.weight_shape), ("bias", (layer.units,))):
                one = (stream.draw(shape) * 2 - 1) * np.float32(bound)
                params[f"{layer.name}.{part}"] = as_tensor(np.repeat(one[None], clients, 0))
        return params

    def forward(self, params: Params, x: Tensor, tape: list[Step] | None = None) -> Tensor:
        """Return logits ``[clients, samples, classes]`` of ``x [clients, samples, *features]``.

        With a `tape`, what each layer saw and made is appended to it.
        """
        if tape is None and (kernels := for_passes(self.known, x).kernels) is not None:
            made = chains.forward(kernels, self.known, params, x)
            return made.reshape(*x.shape[:2], *self.output_shape)
        if isinstance(x, np.ndarray) and any(not isinstance(one, Linear) for one in self.layers):
            raise lacking("a model of several layers, without compiled kernels,", "torch")
        for layer in self.layers:
            patches = None
            if isinstance(layer, Affine):
                patches = layer.patches(x)
                weight, bias = params[f"{layer.name}.weight"], params[f"{layer.name}.bias"]
                out = layer.of_patches(patches, weight, bias, x.shape)
            else:
                out = layer.forward(x)
            if tape is not None:
                tape.append(Step(x, out, patches))
            x = out
        return x

    def outputs(
        self, params: Params, x: Tensor, tape: list[Step] | None = None
    ) -> tuple[Tensor, ...]:
        """Return the logits of every exit, the last one's at the end: a chain has one."""
        return (self.forward(params, x, tape),)

    def training_pass(
        self,
        params: Params,
        x: Tensor,
        only: Collection[str] | None = None,
        seeds: Sequence[int] = (),
    ) -> Pass:
        """Return a pass through the chain, in which nothing is drawn."""
        tape: list[Step] = []
        return Pass(self.outputs(params, x, tape), tape[self.embedding_at].x)


def group_of(layer: Affine, readers: Iterable[Affine]) -> UnitGroup:
    """Return the units of a layer whose outputs the `readers` see.

    Behind ``Flatten`` unit u owns the inputs ``u * p`` to ``u * p + p - 1``, of p positions.
    """
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


TYPES: dict[str, type[Any]] = {kind.__name__: kind for kind in (Linear, Conv, Pool, ReLU, Flatten)}


def describe(model: Chain) -> list[dict[str, Any]]:
    """Return each layer's type and options, in the order of the chain."""
    chain: list[Any] = [*model.layers]
    return [{"type": type(layer).__name__, **asdict(layer)} for layer in chain]


def described(layers: Sequence[dict[str, Any]], input_shape: Shape) -> Chain:
    """Inverse of :func:`describe`; lists may stand for tuples, as in JSON.

    Raises RunError for a layer that this version does not know.
    """
    made = []
    for layer in layers:
        options = {k: tuple(v) if isinstance(v, list) else v for k, v in layer.items()}
        try:
            made.append(TYPES[str(options.pop("type"))](**options))
        except (KeyError, TypeError) as error:
            raise RunError(
                f"got layer {layer}, expected one of {', '.join(TYPES)} as this version of FedSub "
                "knows them. Use the version that wrote it"
            ) from error
    return Chain(tuple(made), input_shape)
