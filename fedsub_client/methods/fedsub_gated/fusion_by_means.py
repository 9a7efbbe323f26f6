"""The fused track on a device, which knows means of its clusters and of everybody.

The same formula as where a server knows all rows: own rows, clusters' means and everybody's mean,
each class's cluster by its share in a unit's relevance (``FedSubGatedStrategy``).
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
    selected = of.chosen.any(0)
    if shares is None:
        importance = (of.classes[:, None] == np.arange(len(of.own))) * of.known.astype(np.float64)
        # A class that none of the person's clusters holds is everybody's alone.
        common = np.where(importance.any(0), all, 1.0)
        alike = 1 - all
    else:
        # Who did not select a unit has no say in it: the clusters that hold it count alike.
        mine = np.maximum(shares, 0, dtype=np.float64) * of.chosen
        importance = np.where(selected, mine, 1.0) * of.known
        common = np.full(len(of.own), all)
    total = importance.sum(0)
    choice = np.where(total > 0, alike * importance / np.maximum(total, LEAST), 0.0)
    common = common * anybody
    given = choice.sum(0) + common
    # Of a unit that was not selected all comes from others, where anything does.
    own = np.where(selected, 1 - given, 0.0)
    factor = np.where(selected, 1.0, 1 / np.maximum(given, LEAST))
    fused = np.einsum("yu,yuw->uw", choice * factor, of.means)
    fused += (common * factor)[:, None] * everybody + own[:, None] * of.own
    return fused.astype(np.float32), given > 0
