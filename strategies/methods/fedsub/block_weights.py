"""A round's fusion, block by block: clusters among those who hold the same numbers."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from fedsub_core.config.robust import RobustSettings
from strategies.methods.fedsub.cache import Cache
from strategies.methods.fedsub.holdings import Block, Holdings
from strategies.methods.fedsub.membership import ClusterWeights
from strategies.methods.fedsub.robust import without_outliers


class BlockWeights:
    """Weights of clusters, made once for each set of people who hold the same numbers.

    Parameters
    ----------
    cache : of everybody whose rows are fused.
    holdings : what each of them holds.
    names : of the rows that are shared.
    robust : which filter stands between members of a cluster.
    weigh : the clusters' weights of some people, int64 places, before that filter.
    """

    def __init__(
        self,
        cache: Cache,
        holdings: Holdings,
        names: Sequence[str],
        robust: RobustSettings,
        weigh: Callable[[Tensor], ClusterWeights],
    ) -> None:
        self._rows = {name: cache.tensors[f"rows.{name}"] for name in names}
        self._holdings, self._robust, self._weigh = holdings, robust, weigh
        self._made: dict[tuple[int, ...], ClusterWeights] = {}

    def blocks(self, name: str) -> list[Block]:
        """Return the blocks of a layer's rows."""
        return self._holdings.blocks(name, self._shape(name))

    def weights(self, block: Block) -> ClusterWeights:
        """Return the clusters' weights among a block's holders.

        Outliers are told by the numbers that all of them hold.
        """
        key = tuple(block.holders.tolist())
        if key not in self._made:
            shared = [
                self._holdings.shared(name, self._shape(name), block.holders).rows(rows)
                for name, rows in (self._rows.items() if self._robust.multi_krum else ())
            ]
            weights = self._weigh(block.holders)
            self._made[key] = without_outliers(weights, shared, self._robust)
        return self._made[key]

    def _shape(self, name: str) -> tuple[int, int]:
        rows = self._rows[name]
        return rows.shape[1], rows.shape[2]


def by_block(
    blocks: Sequence[Block],
    rows: Tensor,
    masks: Tensor,
    fuse: Callable[[Block], tuple[Tensor, Tensor]],
) -> tuple[Tensor, Tensor]:
    """Return one layer's new rows [n, units, width], and which are replaced [n, units].

    A row travels as a whole. Where of some of its numbers nothing is known, they stay the client's
    own; the server knows these if the client selected the unit, else the row is not replaced.

    Parameters
    ----------
    rows : float32 [n, units, width].
    masks : bool [n, classes, units].
    fuse : of a block, the same for its numbers.
    """
    if len(blocks) == 1 and blocks[0].whole:
        return fuse(blocks[0])
    fused, known = rows.clone(), masks.any(1)
    replaced, complete = torch.zeros_like(known), torch.ones_like(known)
    for block in blocks:
        new, given = fuse(block)
        here = block.holders[:, None], block.units
        fused[block.index] = torch.where(given[:, :, None], new, block.rows(rows))
        replaced[here] |= given
        complete[here] &= given | known[here]
    return fused, replaced & complete
