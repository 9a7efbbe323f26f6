"""Robust means of points, one of each person: trimmed, and the median of every number; or plain."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor


def _weighted(moves: Tensor, shares: Tensor, f: int) -> Tensor:
    return shares @ moves


def _trimmed(moves: Tensor, shares: Tensor, f: int) -> Tensor:
    """Leave out the `f` largest and smallest of every number; the others keep their weights."""
    f = min(f, (len(moves) - 1) // 2)
    pieces = []
    for columns in _columns(moves):
        values, order = columns.sort(dim=0)
        values, kept = values[f : len(moves) - f], shares[order[f : len(moves) - f]]
        pieces.append((values * kept).sum(0) / kept.sum(0))
    return torch.cat(pieces)


def _median(moves: Tensor, shares: Tensor, f: int) -> Tensor:
    """Take of every number the lower median of those with a weight, each of whom counts alike."""
    return torch.cat([columns.median(dim=0).values for columns in _columns(moves[shares > 0])])


def _columns(moves: Tensor) -> Iterator[Tensor]:
    """Yield some numbers of all clients at a time: sorting needs several copies."""
    yield from torch.split(moves, max(1, 2**22 // len(moves)), dim=1)


#: By name: of points [n, numbers] float64 with weights [n] that sum to 1, f of them malicious.
ROBUST_MEANS = {"mean": _weighted, "trimmed-mean": _trimmed, "median": _median}
