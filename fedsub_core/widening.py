"""States that grow: tensors of fewer classes in the first entries of those of more."""

from __future__ import annotations

from collections.abc import Mapping
from operator import le

from fedsub_core.pytorch import Tensor, copied


def widened(kept: Mapping[str, Tensor], begun: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return the tensors of `begun`, with those of `kept` in the first entries of each axis.

    A tensor that does not fit in there, or that `begun` lacks, is left out.
    """
    found = {name: copied(tensor) for name, tensor in begun.items()}
    for name in kept.keys() & found.keys():
        tensor, now = kept[name], found[name]
        if len(tensor.shape) == len(now.shape) and all(map(le, tensor.shape, now.shape)):
            now[tuple(map(slice, tensor.shape))] = tensor
    return found
