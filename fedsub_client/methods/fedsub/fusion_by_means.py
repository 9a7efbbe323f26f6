"""FedSub's fusion on a device, which knows means and counts of its clusters, and nobody's rows."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Bools = NDArray[np.bool_]
Array = NDArray[np.floating]


class OfClusters(NamedTuple):
    """What is known of the clusters that a person is in, of one layer's rows.

    Parameters
    ----------
    classes : those in whose clusters it is, int64 [n].
    means : float32 [n, units, width].
    in_turn : of which units the class's rows were added up, bool [n, units].
    known : of which units there are means of the person's cluster, bool [n, units].
    by_all : which of these all people of a cluster selected, bool [n, units].
    chosen : which units the person selected, bool [n, units].
    selected : which ones it selected for any of its classes, bool [units].
    own : the person's rows, float32 [units, width].
    """

    classes: NDArray[np.int64]
    means: Array
    in_turn: Bools
    known: Bools
    by_all: Bools
    chosen: Bools
    selected: Bools
    own: Array


def fuse(fusion: str, reading: str, of: OfClusters) -> tuple[Array, Bools]:
    """Fuse a layer's rows for one person, by its own classes (FedSub, eq. 6, 7, 9, 10).

    Where not all classes' rows were added up, means over clusters are over those whose were.

    Returns
    -------
    fused : float32 [units, width].
    replaced : bool [units]; the person keeps its own rows elsewhere.
    """
    taken = of.known & of.by_all if fusion != "avg" else of.known
    own_part = np.zeros(len(of.own), np.float32)
    if fusion == "avg" and reading == "own":
        taken = taken & of.chosen
        own_part = 1 - taken.sum(0) / np.maximum(of.in_turn.sum(0), 1).astype(np.float32)
    replaced: Bools = np.logical_or.reduce(taken)
    if fusion == "overlapping":
        replaced = replaced & np.logical_and.reduce(of.by_all & of.chosen)
    share = taken / np.maximum(taken.sum(0), 1) * (1 - own_part)
    fused = np.einsum("yu,yuw->uw", share, of.means) + own_part[:, None] * of.own
    return fused.astype(np.float32), replaced
