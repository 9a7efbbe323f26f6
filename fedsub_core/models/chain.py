"""Models over stacks of clients: a chain of layers, applied to named, stacked parameters."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from math import prod, sqrt

import torch
from torch import Tensor

from fedsub_core.errors import ConfigError
from fedsub_core.models.layers import Affine, Conv, Flatten, Layer, Linear, Pool, ReLU, Shape
from fedsub_core.seeds import generator

Params = dict[str, Tensor]


@dataclass(frozen=True)
class Step:
    """What one layer saw and made; `patches` only for layers with parameters."""

    x: Tensor
    out: Tensor
    patches: Tensor | None


@dataclass(frozen=True)
class Model:
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
    def classes(self) -> int:
        """Outputs of the last layer."""
        return self.affine[-1].units

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

    def init(self, clients: int, seed: int) -> Params:
        """Draw one model and give every client a copy of it.

        Uniform in +-1/sqrt(fan_in), as PyTorch initialises linear and convolutional layers.
        """
        stream = generator(seed, "", 0, "model")
        params: Params = {}
        for layer in self.affine:
            bound = 1 / sqrt(layer.fan_in)
            for part, shape in (("weight", layer.weight_shape), ("bias", (layer.units,))):
                one = (torch.rand(shape, generator=stream) * 2 - 1) * bound
                params[f"{layer.name}.{part}"] = one.expand(clients, *shape).clone()
        return params

    def forward(self, params: Params, x: Tensor, tape: list[Step] | None = None) -> Tensor:
        """Return logits ``[clients, samples, classes]`` of ``x [clients, samples, *features]``.

        With a `tape`, what each layer saw and made is appended to it.
        """
        for layer in self.layers:
            patches = None
            if isinstance(layer, Affine):
                patches = layer.patches(x)
                weight = params[f"{layer.name}.weight"].flatten(2)
                bias = params[f"{layer.name}.bias"].unsqueeze(1)
                z = torch.baddbmm(bias, patches, weight.transpose(1, 2))
                out = layer.positions_last(z, x.shape)
            else:
                out = layer.forward(x)
            if tape is not None:
                tape.append(Step(x, out, patches))
            x = out
        return x

    def accumulate_gradients(
        self, params: Params, tape: Sequence[Step], grad: Tensor, into: Params, keep: float
    ) -> None:
        """Set ``into = keep * into + gradient`` for every parameter.

        `grad` is the loss's gradient with respect to the logits of the forward pass that filled
        `tape`. With ``keep = momentum`` this is SGD's momentum update, without a copy.
        """
        first = self.affine[0]
        for layer, step in zip(reversed(self.layers), reversed(tape), strict=True):
            if isinstance(layer, Affine):
                assert step.patches is not None
                grad = layer.units_last(grad)
                into_weight = into[f"{layer.name}.weight"].flatten(2)
                into_weight.baddbmm_(grad.transpose(1, 2), step.patches, beta=keep)
                into[f"{layer.name}.bias"].mul_(keep).add_(grad.sum(1))
                if layer is first:
                    return
                grad = grad.bmm(params[f"{layer.name}.weight"].flatten(2))
                grad = layer.unpatch(grad, step.x.shape)
            else:
                grad = layer.input_gradient(step.x, step.out, grad)


def mlp(inputs: int, classes: int, hidden: tuple[int, ...] = (128, 512)) -> Model:
    """Return the papers' feed-forward model: inputs-128-512-classes with ReLU."""
    sizes = (inputs, *hidden, classes)
    layers: list[Layer | Affine] = []
    for i, (fan_in, units) in enumerate(pairwise(sizes)):
        layers += [Linear(f"linear{i + 1}", units, fan_in), ReLU()]
    return Model(tuple(layers[:-1]), (inputs,))


def cnn1d(channels: int, samples: int, classes: int) -> Model:
    """Return a small 1-D CNN for raw windows ``[channels, samples]``."""
    if samples < 32:
        raise ConfigError(f"cnn1d needs windows of 32 samples or more, got {samples}: use mlp")
    return Model(
        (
            Conv("conv1", 32, channels, (7,), (2,), (3,)),
            ReLU(),
            Pool("max", (2,)),
            Conv("conv2", 64, 32, (5,), (1,), (2,)),
            ReLU(),
            Pool("adaptive-avg", (4,)),
            Flatten(),
            Linear("linear1", 128, 256),
            ReLU(),
            Linear("linear2", classes, 128),
        ),
        (channels, samples),
    )


def build_model(kind: str, input_shape: Shape, classes: int) -> Model:
    """Return the model called `kind` for samples of `input_shape`.

    ``auto`` is ``mlp`` for feature vectors and ``cnn1d`` for windows.
    """
    if kind == "auto":
        kind = "mlp" if len(input_shape) == 1 else "cnn1d"
    if kind == "cnn1d":
        if len(input_shape) != 2:
            raise ConfigError(
                f"model cnn1d wants windows [channels, time], this federation has {input_shape}: "
                "use mlp or auto"
            )
        return cnn1d(*input_shape, classes)
    if kind != "mlp":
        raise ConfigError(f"unknown model {kind!r}: expected auto, mlp or cnn1d")
    flat = mlp(prod(input_shape), classes)
    if len(input_shape) == 1:
        return flat
    return Model((Flatten(), *flat.layers), input_shape)
