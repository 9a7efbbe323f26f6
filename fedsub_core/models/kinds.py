"""Kinds of models, built: ours, those of installed packages, and any module by its builder.

A builder (:mod:`fedsub_core.models.names`) is a function of ``(input_shape, classes)`` that returns
a ``torch.nn.Module`` or a :class:`Chain`. A ``torch.nn.Sequential`` that a chain computes exactly,
and whose first weights are PyTorch's own, becomes a chain; every other module is trained as it is.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from math import prod
from typing import Any

from fedsub_core.data.samples import Nodes, Tokens
from fedsub_core.errors import ConfigError
from fedsub_core.extras import require
from fedsub_core.models.architecture import Shape
from fedsub_core.models.builders import builder_at
from fedsub_core.models.chain import TYPES, Chain
from fedsub_core.models.layers import Affine, Conv, Flatten, Layer, Linear, Pool, ReLU
from fedsub_core.models.model import Model
from fedsub_core.models.names import (
    AUTO,
    CNN1D,
    HIDDEN,
    LINEAR,
    MLP,
    OF_NODES,
    OF_TOKENS,
    PUBLISHED,
    check_kind,
    installed,
    is_place,
    parse_hidden,
    resolve_kind,
)
from fedsub_core.models.norms import AVERAGED, check_norms
from fedsub_core.pytorch import HERE, nn, torch

if HERE:
    from fedsub_core.models.from_torch import from_torch
    from fedsub_core.models.initial_weights import Writes, check_initial
    from fedsub_core.models.torch_model import TorchModel


def mlp(inputs: int, classes: int, hidden: tuple[int, ...] = (128, 512)) -> Chain:
    """Return the papers' feed-forward model: inputs-128-512-classes with ReLU."""
    sizes = (inputs, *hidden, classes)
    layers: list[Layer | Affine] = []
    for i, (fan_in, units) in enumerate(pairwise(sizes)):
        layers += [Linear(f"linear{i + 1}", units, fan_in), ReLU()]
    return Chain(tuple(layers[:-1]), (inputs,))


def cnn1d(channels: int, samples: int, classes: int) -> Chain:
    """Return a small 1-D CNN for raw windows ``[channels, samples]``."""
    if samples < 32:
        raise ConfigError(f"cnn1d needs windows of 32 samples or more, got {samples}: use mlp")
    return Chain(
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


def build_model(
    kind: str,
    input_shape: Shape,
    classes: int,
    norm: str = AVERAGED,
    seed: int = 0,
    hidden: str = HIDDEN,
    narrow: bool = False,
) -> Model:
    """Return the model called `kind` for samples of `input_shape`.

    Parameters
    ----------
    norm : where running statistics of norms go: :mod:`fedsub_core.models.norms`.
    seed : of the run, from which a module draws what it does not train.
    hidden : units of each hidden layer of ``mlp``, with commas.
    narrow : whether only narrow models of it are wanted: a module is then not held whole.

    Raises ConfigError if there is none of that name, or it cannot take such samples.
    """
    check_kind(kind)
    auto, kind = kind == AUTO, resolve_kind(kind, input_shape)
    if auto and kind not in {*BUILDERS, *PUBLISHED, *installed()}:
        raise ConfigError(
            f"model auto: got samples {input_shape!r}, expected a package that offers {kind}, "
            "which auto takes for these: install one, or name a model"
        )
    if kind in BUILDERS:
        if isinstance(input_shape, Tokens):
            raise ConfigError(f"model {kind!r} takes numbers, got {input_shape!r}: use {OF_TOKENS}")
        if isinstance(input_shape, Nodes):
            raise ConfigError(f"model {kind!r} takes no graph, got {input_shape!r}: use {OF_NODES}")
        return _without_norms(BUILDERS[kind](input_shape, classes, hidden), norm)
    require(f"model {kind!r}", "torch")
    build = builder_of(kind)
    # Of token ids no chain makes anything, and of nodes none knows who is joined to whom.
    others = isinstance(input_shape, (Tokens, Nodes))
    chain = None if others else _chain(build, input_shape, classes)
    try:
        if chain is None:
            return TorchModel.of(build, input_shape, classes, norm, seed, narrow)
    except ConfigError as error:
        raise ConfigError(f"model {kind!r}: {error}") from error
    if chain.output_shape != (classes,):
        raise ConfigError(
            f"model {kind!r}: got outputs of shape {chain.output_shape}, expected {(classes,)}: a "
            "logit a class"
        )
    if strange := [layer for layer in chain.layers if type(layer) not in TYPES.values()]:
        raise ConfigError(
            f"model {kind!r}: got layer {strange[0]}, expected {', '.join(TYPES)}: a model's file "
            "says how to compute with it"
        )
    return _without_norms(chain, norm)


def builder_of(kind: str) -> Callable[..., Any]:
    """Return the builder of a kind that is no chain of ours; `kind` is known."""
    if is_place(kind) or kind in PUBLISHED:
        return builder_at(PUBLISHED.get(kind, kind))
    found: Callable[..., Any] = installed()[kind].load()
    return found


def _chain(build: Callable[..., Any], input_shape: Shape, classes: int) -> Chain | None:
    """Return what is built as a chain, which is faster; None where it is not one exactly."""
    try:
        # Without storage: nothing is drawn from PyTorch's global stream.
        with torch.device("meta"), Writes() as writes:
            built = build(input_shape, classes)
        if isinstance(built, nn.Sequential):
            module, built = built, from_torch(built, input_shape)[0]
            check_initial(module, writes)
    except Exception:  # whatever it is, the module itself is tried next, and says what is wrong
        return None
    return built if isinstance(built, Chain) else None


def _without_norms(chain: Chain, norm: str) -> Chain:
    if norm != AVERAGED:
        check_norms(nn.Identity(), norm)
    return chain


def _mlp(input_shape: Shape, classes: int, hidden: str) -> Chain:
    flat = mlp(prod(input_shape), classes, parse_hidden(hidden))
    return flat if len(input_shape) == 1 else Chain((Flatten(), *flat.layers), input_shape)


def _linear(input_shape: Shape, classes: int, hidden: str) -> Chain:
    """Return one layer: softmax regression."""
    layer = Linear("linear1", classes, prod(input_shape))
    layers = (layer,) if len(input_shape) == 1 else (Flatten(), layer)
    return Chain(layers, input_shape)


def _cnn1d(input_shape: Shape, classes: int, hidden: str) -> Chain:
    if len(input_shape) != 2:
        raise ConfigError(
            f"model cnn1d wants windows [channels, time], got samples of shape {input_shape}: "
            "use mlp or auto"
        )
    return cnn1d(*input_shape, classes)


BUILDERS: dict[str, Callable[[Shape, int, str], Chain]] = {
    MLP: _mlp,
    CNN1D: _cnn1d,
    LINEAR: _linear,
}
