"""A chain of layers as plain values, for a file that says itself how to compute with it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from fedsub_core.errors import RunError
from fedsub_core.models.architecture import Shape
from fedsub_core.models.chain import Chain
from fedsub_core.models.layers import Conv, Flatten, Linear, Pool, ReLU

TYPES: dict[str, type[Any]] = {kind.__name__: kind for kind in (Linear, Conv, Pool, ReLU, Flatten)}


def describe(model: Chain) -> list[dict[str, Any]]:
    """Return each layer's type and options, in the order of the chain."""
    chain: list[Any] = [*model.layers]
    return [{"type": type(layer).__name__, **asdict(layer)} for layer in chain]


def described(layers: Sequence[dict[str, Any]], input_shape: Shape) -> Chain:
    """Inverse of :func:`describe`; lists may stand for tuples, as in JSON.

    Raises
    ------
    RunError
        For a layer that this version does not know.
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
