"""Convergence of training: the loss at the end beside that after three quarters of the rounds."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

#: A share of the loss: what falls by more in the last quarter of the rounds still falls.
FALLS = 0.05


def last_fall(losses: Mapping[int, Mapping[str, float]]) -> float | None:
    """Return the fall of the loss over the last quarter of the rounds, as a share of the loss.

    Losses are means over the people who were tested at both ends, nats. The quarter begins in the
    last evaluated round that is no later than three quarters of all. None where no round is so
    early, or where a loss is no number.

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
