"""FedSub's fusion on a device, which knows means and counts of its clusters, and nobody's rows."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Bools = NDArray[np.bool_]
Array = NDArray[np.floating]


def fuse(
    fusion: str, reading: str, means: Array, known: Bools, by_all: Bools, chosen: Bools, own: Array
) -> tuple[Array, Bools]:
    """Fuse a layer's rows for one person, by its own classes (FedSub, eq. 6, 7, 9, 10).

    Parameters
    ----------
    means : of the clusters that the person is in, float32 [classes, units, width].
    known : of which units there are means, bool [classes, units].
    by_all : which of these all people of the cluster selected, bool [classes, units].
    chosen : which units the person selected, bool [classes, units].
    own : the person's rows, float32 [units, width].

    Returns
    -------
    fused : float32 [units, width].
    replaced : bool [units]; the person keeps its own rows elsewhere.
    """
    taken = known & by_all if fusion != "avg" else known
    own_part = np.zeros(len(own), np.float32)
    if fusion == "overlapping":
        replaced: Bools = np.logical_and.reduce(taken & chosen)
    elif fusion == "avg" and reading == "own":
        taken = taken & chosen
        replaced = np.logical_or.reduce(taken)
        own_part = 1 - taken.mean(0, dtype=np.float32)
    else:
        replaced = np.logical_or.reduce(taken)
    share = taken / np.maximum(taken.sum(0), 1) * (1 - own_part)
    fused = np.einsum("yu,yuw->uw", share, means) + own_part[:, None] * own
    return fused.astype(np.float32), replaced
