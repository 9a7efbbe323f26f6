"""A round's fusion: everybody's clusters among those who hold the same numbers."""

from __future__ import annotations

from collections.abc import Callable, Sequence

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
