"""The fused track on a device, which knows means of its clusters and of everybody.

The same formula as where a server knows all rows (``FedSubGatedStrategy``): own rows, clusters'
means and everybody's mean, each class's cluster by its share in a unit's relevance. Where classes
take turns, a class counts by its share times how many there are, at most as all of them together.
"""

from __future__ import annotations

import numpy as np

from fedsub_client.methods.fedsub.fusion_by_means import Array, Bools, OfClusters

#: Smallest number that is divided by.
LEAST = 1e-300


def fuse(
    of: OfClusters, shares: Array | None, everybody: Array, anybody: Bools, alike: float, all: float
) -> tuple[Array, Bools]:
    """Fuse a layer's rows for one person.

    Parameters
    ----------
    of : the person's clusters.
    shares : each of the person's classes' share in a unit's relevance, [classes, units]; None: the
        output layer, whose unit y is class y's alone.
    everybody : mean of all people's rows, float32 [units, width].
    anybody : of which units there is one, bool [units].
    alike, all : how much of a hidden unit comes from clusters, and how much from everybody.

    Returns
    -------
    fused : float32 [units, width].
    replaced : bool [units]; the person keeps its own rows elsewhere.
    """
    known = of.known.astype(np.float64)
    if shares is None:
        choice = (1 - all) * (of.classes[:, None] == np.arange(len(of.own))) * known
        # A class that the person lacks is everybody's alone.
        common = np.where(choice.any(0) | of.selected, all, 1.0)
    else:
        mine = np.maximum(shares, 0, dtype=np.float64) * of.chosen
        mine /= np.maximum(mine.sum(0), LEAST)
        # Where classes take turns, each comes as many times more seldom.
        turns = len(of.classes) / np.maximum(of.in_turn.sum(0), 1)
        # Who did not select a unit has no say in it: the clusters that hold it count alike.
        every = 1 / np.maximum(known.sum(0), 1)
        choice = alike * np.where(of.selected, np.minimum(mine * turns, 1), every) * known
        common = np.full(len(of.own), all)
    common = common * anybody
    given = choice.sum(0) + common
    # Of a unit that was not selected all comes from others, where anything does.
    own = np.where(of.selected, 1 - given, 0.0)
    factor = np.where(of.selected, 1.0, 1 / np.maximum(given, LEAST))
    fused = np.einsum("yu,yuw->uw", choice * factor, of.means)
    fused += (common * factor)[:, None] * everybody + own[:, None] * of.own
    return fused.astype(np.float32), given > 0
