"""An encoder of its text."""

from __future__ import annotations

from collections.abc import Callable

from fedsub_core.data.samples import Nodes, Tokens
from fedsub_core.encoders.encoder import Encoder
from fedsub_core.encoders.kernels_encoder import KernelsEncoder
from fedsub_core.encoders.module_encoder import ModuleEncoder
from fedsub_core.encoders.module_names import NamedModule
from fedsub_core.encoders.names import KERNELS, NONE, RANKS, RELU, parse_encoder
from fedsub_core.encoders.ranks_encoder import RanksEncoder
from fedsub_core.encoders.relu_encoder import ReluEncoder
from fedsub_core.encoders.statistics_encoder import StatisticsEncoder
from fedsub_core.errors import ConfigError
from fedsub_core.models.architecture import Shape

_KINDS: dict[str, Callable[[int, int, Shape], Encoder]] = {
    KERNELS: KernelsEncoder,
    RELU: ReluEncoder,
    RANKS: RanksEncoder,
}


def build_encoder(text: str, seed: int, shape: Shape) -> Encoder | None:
    """Return the encoder that `text` names, for samples of `shape`; None for ``none``.

    Raises ConfigError if there is none of that name, it cannot take such samples, or its module is
    none.
    """
    if text == NONE:
        return None
    if len(shape) > 2 or isinstance(shape, (Nodes, Tokens)):
        raise ConfigError(
            f"encoder: got {text!r} for samples of shape {shape!r}, expected none: encoders take "
            "windows and feature vectors; images, token ids and nodes go into the model as they "
            "are. Set encoder = none, or take a method that trains its model"
        )
    if NamedModule.parse(text) is not None:
        return ModuleEncoder.of(text, seed, shape)
    kind, size, groups = parse_encoder(text)
    if groups:
        return StatisticsEncoder(size, seed, shape, groups)
    return _KINDS[kind](size, seed, shape)


def model_shape(encoder: Encoder | None, shape: Shape) -> Shape:
    """Return the shape of what a model sees of a sample of `shape`."""
    return shape if encoder is None else (encoder.features,)
