"""FedSub's fusion on a device, which knows means and counts of its clusters, and nobody's rows."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedsub_core.methods.fedsub_sums import MEANS, SELECTED_BY_ALL
from fedsub_core.models.architecture import LayerWithUnits, UnitRows
from fedsub_core.wire.bundles import Bundle

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


def places(cluster: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return classes and clusters of a person who is in one of each class, -1: in none."""
    inside = np.flatnonzero(cluster >= 0)
    return inside, cluster[inside]


def of_clusters(
    bundle: Bundle,
    layer: LayerWithUnits,
    own: UnitRows,
    cluster: NDArray[np.int64],
    chosen: Bools,
    rows: Array,
) -> OfClusters:
    """Return what a download says of a person's clusters, of one layer's rows.

    Parameters
    ----------
    own : which of the layer's rows.
    cluster : the person's cluster of each class, int64 [classes], -1: in none.
    chosen : which units it selected, bool [classes, units].
    rows : the person's, float32 [units, width].
    """
    at = places(cluster)
    by_all = bundle.bits(layer.name + SELECTED_BY_ALL).reshape(len(cluster), -1, layer.units)
    part = bundle.part(own.name + MEANS)
    held = part.at.held((by_all.size,))
    known = held.reshape(by_all.shape)
    # Where each mean stands among those that were sent: only the person's own are taken out.
    place = (held.cumsum() - 1).reshape(by_all.shape)
    means = np.zeros((len(at[0]), layer.units, own.width), np.float32)
    means[known[at]] = part.values[place[at][known[at]]]
    in_turn, selected = np.logical_or.reduce(known, axis=1), np.logical_or.reduce(chosen)
    mine = in_turn[at[0]], known[at], by_all[at], chosen[at[0]]
    return OfClusters(at[0], means, *mine, selected, rows)


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
