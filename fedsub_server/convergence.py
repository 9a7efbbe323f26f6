"""Whether training had converged: the loss at the end beside that of three quarters of the way."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

#: A share of the loss: what falls by more in the last quarter of the rounds still falls.
FALLS = 0.05


def last_fall(losses: Mapping[int, Mapping[str, float]]) -> float | None:
    """Return by how much the loss fell over the last quarter of rounds, a share of what it was.

    The mean over people who were tested at both of its ends, nats. It begins in the last evaluated
    round that is no later than three quarters of all. None where none is so early, or where a loss
    is no number.

    Parameters
    ----------
    losses : by round, from 1, and client.
    """
    last = max(losses, default=0)
    first = max((round for round in losses if 0 < round <= 0.75 * last), default=None)
    if first is None:
        return None
    both = sorted(losses[first].keys() & losses[last].keys())
    before, after = (np.array([losses[round][c] for c in both]) for round in (first, last))
    if not both or not np.isfinite([before, after]).all() or before.mean() <= 0:
        return None
    return float(1 - after.mean() / before.mean())
