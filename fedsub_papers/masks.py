"""Masks over single numbers of a tensor: which train and travel, and which are zero.

Where numbers are equal, the earlier position comes first, so that all who compute a mask agree.
"""

from collections.abc import Mapping

import torch
from torch import Tensor


def share_of(numbers: int, share: float) -> int:
    """Return ``floor(share * numbers)``, also where floats make a whole product a bit less."""
    return int(share * numbers + 1e-9)


def random(shape: tuple[int, ...], zeros: int, stream: torch.Generator) -> Tensor:
    """Return a bool mask of `shape`, False in `zeros` places drawn uniformly."""
    mask = torch.ones(shape, dtype=torch.bool)
    mask.view(-1)[torch.randperm(mask.numel(), generator=stream)[:zeros]] = False
    return mask


def lowest(values: Tensor, candidates: Tensor, count: int) -> Tensor:
    """Return the mask of the `count` smallest values of `candidates`, bool of the same shape.

    `count` is at most the number of True in `candidates`.
    """
    places = candidates.reshape(-1).nonzero().squeeze(1)
    order = values.reshape(-1)[places].argsort(stable=True)
    mask = torch.zeros(candidates.numel(), dtype=torch.bool, device=candidates.device)
    mask[places[order[:count]]] = True
    return mask.view(candidates.shape)


def highest(values: Tensor, candidates: Tensor, count: int) -> Tensor:
    """Return the mask of the `count` largest values of `candidates`; see :func:`lowest`."""
    return lowest(-values, candidates, count)


def sparsity(masks: Mapping[str, Tensor], tensors: Mapping[str, Tensor]) -> tuple[float, float]:
    """Return the share that is masked out of all masked tensors' numbers, and of all numbers.

    `tensors` are a model's by name, `masks` those of some of them.
    """
    zeros = sum(int((~mask).sum()) for mask in masks.values())
    weights = sum(mask.numel() for mask in masks.values())
    return zeros / weights, zeros / sum(tensor.numel() for tensor in tensors.values())
