"""The common gate: one step of expectation maximisation a round, from sums over people.

What a device sends for it is a number for each expert and how many samples these are sums over:
secure aggregation could add them up.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from fedsub_core.methods.fedsub_gated import GATE
from fedsub_core.wire.bundles import Bundle

State = dict[str, Tensor]
WEIGHTS, LOW = "gate.weights", "gate.low"
#: An expert is dropped after so many rounds below the threshold; the first share of a run, in which
#: nobody has learnt much, does not count.
PATIENCE, WARM_UP = 5, 0.35
#: The least weight of an expert that was not dropped: one of 0 could never come back.
LEAST = 1e-6


@dataclass(frozen=True)
class Gate:
    """How much each expert is believed by all, and for how many rounds it was hardly.

    Parameters
    ----------
    weights : float32 [experts], which sum to 1; 0: dropped for ever.
    low : int64 [experts].
    """

    weights: Tensor
    low: Tensor

    @classmethod
    def even(cls, experts: int) -> Gate:
        """Return a gate that knows nothing."""
        return cls(torch.full((experts,), 1 / experts), torch.zeros(experts, dtype=torch.int64))

    @classmethod
    def of(cls, state: State) -> Gate:
        """Read a gate out of a strategy's state."""
        return cls(state[WEIGHTS], state[LOW])

    def state(self) -> State:
        """Return it as plain named tensors."""
        return {WEIGHTS: self.weights, LOW: self.low}

    def updated(self, uploads: Mapping[str, Bundle], most: float) -> Gate:
        """Return the gate after a round's sums; where there are none, it is this one.

        Nobody counts for more than `most` times the median number of samples (0: no bound).
        """
        sums = np.stack([upload.floats(GATE) for upload in uploads.values()]).astype(np.float64)
        counts = sums[:, -1]
        if not counts.any():
            return self
        if most:
            bound = most * np.median(counts[counts > 0])
            sums *= np.minimum(1, bound / np.maximum(counts, 1e-12))[:, None]
        new = torch.from_numpy(sums[:, :-1].sum(0))
        total = new.sum()
        if not total > 0:
            return self
        new = torch.where(self.weights > 0, (new / total).clamp(min=LEAST), 0.0)
        return Gate((new / new.sum()).float(), self.low)

    def pruned(self, threshold: float, round: int, rounds: int, keep: Tensor) -> Gate:
        """Return the gate without experts that have been below `threshold` for some rounds.

        `keep` bool [experts]: which are not dropped.
        """
        if not threshold or round <= WARM_UP * rounds:
            return self
        low = torch.where((self.weights < threshold) & ~keep, self.low + 1, 0)
        kept = self.weights * (low < PATIENCE)
        return Gate(kept / kept.sum(), low)
