"""Kinds of models, built: ours, and those of installed packages.

What a package offers (:mod:`fedsub_core.models.names`) is a function of ``(input_shape, classes)``
that returns a ``torch.nn.Sequential`` or a :class:`Model`. A module is trained exactly as it is
given, or refused.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from math import prod

import torch
from torch import nn

from fedsub_core.errors import ConfigError
from fedsub_core.models.architecture import Shape
from fedsub_core.models.chain import Model
from fedsub_core.models.described import TYPES
from fedsub_core.models.from_torch import from_torch
from fedsub_core.models.initial_weights import Writes, check_initial
from fedsub_core.models.layers import Affine, Conv, Flatten, Layer, Linear, ReLU
from fedsub_core.models.names import CNN1D, LINEAR, MLP, check_kind, installed, resolve_kind
from fedsub_core.models.pooling import Pool


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

    Raises
    ------
    ConfigError
        If there is none of that name, or it cannot take such samples, or an installed one is
        built of layers that have no counterpart here.
    """
    check_kind(kind)
    kind = resolve_kind(kind, input_shape)
    if kind in BUILDERS:
        return BUILDERS[kind](input_shape, classes)
    builder = installed()[kind].load()
    # Without storage: nothing is drawn from PyTorch's global stream.
    with torch.device("meta"), Writes() as writes:
        built = builder(input_shape, classes)
    if isinstance(built, nn.Sequential):
        try:
            module, built = built, from_torch(built, input_shape)[0]
            check_initial(module, writes)
        except ConfigError as error:
            raise ConfigError(f"model {kind!r}: {error}") from error
    shape = built.output_shape if isinstance(built, Model) else "unknown"
    if shape != (classes,):
        raise ConfigError(
            f"model {kind!r}: got {type(built).__name__}, outputs of shape {shape}; expected a "
            f"torch.nn.Sequential or a fedsub Model, outputs of shape {(classes,)}: a logit a class"
        )
    assert isinstance(built, Model)
    if strange := [layer for layer in built.layers if type(layer) not in TYPES.values()]:
        raise ConfigError(
            f"model {kind!r}: got layer {strange[0]}, expected {', '.join(TYPES)}: a model's file "
            "says how to compute with it"
        )
    return built


def _mlp(input_shape: Shape, classes: int) -> Model:
    flat = mlp(prod(input_shape), classes)
    return flat if len(input_shape) == 1 else Model((Flatten(), *flat.layers), input_shape)


def _linear(input_shape: Shape, classes: int) -> Model:
    """Return one layer: softmax regression."""
    layer = Linear("linear1", classes, prod(input_shape))
    layers = (layer,) if len(input_shape) == 1 else (Flatten(), layer)
    return Model(layers, input_shape)


def _cnn1d(input_shape: Shape, classes: int) -> Model:
    if len(input_shape) != 2:
        raise ConfigError(
            f"model cnn1d wants windows [channels, time], got samples of shape {input_shape}: "
            "use mlp or auto"
        )
    return cnn1d(*input_shape, classes)


BUILDERS: dict[str, Callable[[Shape, int], Model]] = {MLP: _mlp, CNN1D: _cnn1d, LINEAR: _linear}
