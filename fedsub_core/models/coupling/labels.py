"""Labels of values: which unit each is of, and which units are one.

A label is a number. ``FIXED`` is what no unit owns, such as inputs; ``NEUTRAL`` is a constant that
goes with anything, such as padding; all others are units.
"""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor

NEUTRAL, FIXED = -1, 0
_ABOVE = 2**62


class Labels:
    """All labels that were given, and which of them stand for the same unit (union-find)."""

    def __init__(self) -> None:
        self._root = torch.zeros(1, dtype=torch.int64)

    def fresh(self, count: int) -> Tensor:
        """Return labels of `count` new units, int64 ``[count]``."""
        new = torch.arange(len(self._root), len(self._root) + count)
        self._root = torch.cat([self._root, new])
        return new

    def roots(self, labels: Tensor) -> Tensor:
        """Return for each label the one that stands for all that are one with it."""
        core = _core(labels)
        return torch.where(core < 0, core, self._root[core.clamp(min=0)]).expand(labels.shape)

    def unite(self, some: Tensor, others: Tensor) -> None:
        """Say that labels at the same place are one; the smaller root stands for both."""
        cores = (_core(self.roots(labels)) for labels in (some, others))
        one, two = torch.broadcast_tensors(*cores)  # type: ignore[no-untyped-call]
        differ = (one != two) & (one >= 0) & (two >= 0)
        if not bool(differ.any()):
            return
        root = self._root.tolist()
        pairs = torch.stack([one[differ], two[differ]], 1)
        for a, b in pairs.unique(dim=0).tolist():  # type: ignore[no-untyped-call]
            a, b = _find(root, a), _find(root, b)
            root[max(a, b)] = min(a, b)
        # Smaller numbers come first, so that one sweep ends at the roots.
        for i, above in enumerate(root):
            root[i] = root[above]
        self._root = torch.tensor(root)

    def fix(self, labels: Tensor) -> None:
        """Say that no unit owns these."""
        self.unite(labels, torch.tensor(FIXED))

    def greatest(self, labels: Tensor, axis: int) -> Tensor:
        """Return the greatest root along an axis, which keeps one entry."""
        shape = [*labels.shape]
        shape[axis] = 1
        return _core(self.roots(labels)).amax(axis, keepdim=True).expand(shape)

    def together(self, some: Tensor, others: Tensor) -> Tensor:
        """Unite labels with others that are repeated as they, and return them.

        Constants give way.
        """
        self.unite(some, others)
        both = torch.maximum(*(_core(self.roots(labels)) for labels in (some, others)))
        return both.expand(some.shape)

    def varying(self, labels: Tensor) -> frozenset[int]:
        """Return the axes along which units differ; constants differ from nothing."""
        roots = _core(self.roots(labels))
        low = torch.where(roots < 0, _ABOVE, roots)
        return frozenset(
            axis
            for axis in range(roots.ndim)
            if roots.shape[axis] > 1 and bool((low.amin(axis) < roots.amax(axis)).any())
        )

    def units(self, labels: Tensor) -> frozenset[int]:
        """Return the roots of the units among these."""
        roots = _core(self.roots(labels))
        return frozenset(root for root in roots.flatten().tolist() if root > FIXED)

    def along(self, labels: Tensor, axis: int) -> Tensor:
        """Return labels of an axis alone, ``[entries]``: at each entry all become one."""
        entries = labels.shape[axis]
        rows = _core(labels).movedim(axis, 0)
        rows = rows.reshape(len(rows), -1)
        first = self.greatest(rows, 1)
        self.unite(rows, first)
        return self.roots(first[:, 0]).clamp(min=FIXED).expand(entries)


def spread(labels: Tensor, axis: int, shape: Iterable[int]) -> Tensor:
    """Return labels ``[entries]`` of an axis as those of a tensor of `shape`."""
    shape = tuple(shape)
    alone = [1] * len(shape)
    alone[axis] = -1
    return labels.view(alone).expand(shape)


def neutral(shape: Iterable[int]) -> Tensor:
    """Return labels of a constant."""
    return torch.tensor(NEUTRAL).expand(tuple(shape))


def _find(root: list[int], one: int) -> int:
    while root[one] != one:
        one = root[one]
    return one


def _core(labels: Tensor) -> Tensor:
    """Return labels with one entry along axes where they only repeat: what is left is small."""
    for axis, step in enumerate(labels.stride()):
        if step == 0:
            labels = labels.narrow(axis, 0, 1)
    return labels
