"""How far clients' models are from each other: cosine and Euclidean, all pairs at once.

Both follow from the matrix of inner products (the Gram matrix), one product of all models with all.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

#: Numbers of all clients that are turned to float64 at a time.
BLOCK = 2**24


def flattened(tensors: Mapping[str, Tensor]) -> Tensor:
    """Return stacked tensors ``[n, ...]`` side by side, in their order: ``[n, numbers]``."""
    return torch.cat([tensor.flatten(1) for tensor in tensors.values()], dim=1)


def cosine_distances(x: Tensor) -> Tensor:
    """Return ``1 - cos`` of all pairs of rows of ``x [n, d]``, float64 [n, n], in [0, 2].

    Exactly 0 on the diagonal; a row of zeros is at 1 from all others.
    """
    inner = products(x)
    lengths = inner.diagonal().sqrt()
    lengths = lengths.where(lengths > 0, torch.ones_like(lengths))
    distances = (1 - inner / lengths.unsqueeze(1) / lengths).clamp_(0, 2)
    return distances.fill_diagonal_(0)


def squared_distances(x: Tensor) -> Tensor:
    """Return ``||x_i - x_j||**2`` of all pairs of rows of ``x [n, d]``, float64 [n, n].

    Exactly 0 on the diagonal. Distances are those from the rows' mean: where models are alike,
    little of their length is left to cancel.
    """
    inner = products(x - x.mean(0))
    squares = inner.diagonal()
    distances = (squares.unsqueeze(1) + squares - 2 * inner).clamp_(min=0)
    return distances.fill_diagonal_(0)


def products(x: Tensor) -> Tensor:
    """Return the inner products of all pairs of rows of ``x [n, d]``, float64 [n, n].

    Added up in float64, of which only a block of columns is held at a time.
    """
    total = x.new_zeros(len(x), len(x), dtype=torch.float64)
    for columns in torch.split(x, max(1, BLOCK // max(1, len(x))), dim=1):
        block = columns.double()
        total.addmm_(block, block.T)
    return total
