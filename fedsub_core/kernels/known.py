"""Which models the kernels know, and how: layer by layer, in plain numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from fedsub_core.models.architecture import Shape
from fedsub_core.models.layers import Affine, Conv, Flatten, Layer, Linear, Pool, ReLU

#: Kinds of layers, as in ``fedsub.h``.
AFFINE, MAX_POOL, MEAN_POOL = range(3)


class Known(NamedTuple):
    """A layer as the kernels know it: it sees ``[channels, length]``, makes ``[units, made]``."""

    name: str
    kind: int
    channels: int
    length: int
    units: int
    made: int
    kernel: int
    stride: int = 1
    padding: int = 0
    relu: bool = False


def known(layers: Sequence[Layer | Affine], shape: Shape) -> tuple[Known, ...]:
    """Return the layers, which see `shape`, as the kernels know them; () if they do not know all.

    They know fully connected layers and convolutions over one axis, each with a ReLU or without,
    and pooling in whole windows.
    """
    found: list[Known] = []
    for before, layer in zip((None, *layers), layers, strict=False):
        made = layer.output_shape(shape)
        if min(made) < 1:
            return ()
        if isinstance(layer, Linear) and len(shape) == 1:
            found.append(Known(layer.name, AFFINE, shape[0], 1, made[0], 1, kernel=1))
        elif isinstance(layer, Conv) and len(shape) == 2:
            where = layer.kernel[0], layer.stride[0], layer.padding[0]
            found.append(Known(layer.name, AFFINE, shape[0], shape[1], made[0], made[1], *where))
        elif isinstance(layer, Pool) and len(shape) == 2 and layer.window(shape[1]):
            kind = MAX_POOL if layer.kind == "max" else MEAN_POOL
            window = layer.window(shape[1])
            found.append(Known("", kind, shape[0], shape[1], made[0], made[1], window))
        elif type(layer) is ReLU and isinstance(before, Affine):
            found[-1] = found[-1]._replace(relu=True)
        elif type(layer) is not Flatten:
            return ()
        shape = made
    return tuple(found)


def ends_in_classes(model: Sequence[Known]) -> bool:
    """Return whether the last layer makes logits: then the kernels train and relate it."""
    if not model or model[-1].kind != AFFINE or model[-1].relu:
        return False
    last = model[-1]
    return last.length == last.kernel == 1 and not last.padding
