"""What predicts: means of an expert's models over its last rounds, which swing less than each.

Polyak and Juditsky, Acceleration of Stochastic Approximation by Averaging, SIAM J. Control Optim.
30, 1992; with weights that fall exponentially.
"""

from __future__ import annotations

from collections.abc import Collection

import torch
from torch import Tensor

#: Before the name of a parameter: its mean.
MEAN = "mean."
#: After so many rounds about half of them count.
SOON = 10


def smoothed(
    state: dict[str, Tensor], names: Collection[str], most: float, round: int
) -> dict[str, Tensor]:
    """Return new means of the parameters `names`: what a round adds is at least ``1 - most``.

    In a run's first rounds, when models still move far, it is more: all of it in the first.
    """
    kept = min(most, (round - 1) / (round - 1 + SOON))
    return {MEAN + name: torch.lerp(state[name], state[MEAN + name], kept) for name in names}
