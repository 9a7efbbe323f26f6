"""What keeps a few members of a cluster from deciding what it gives the others.

The filters of :mod:`strategies.parts.averaging`, which there stand between all uploads of a round,
here stand between the members of one cluster of one class.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import torch
from torch import Tensor

from fedsub_core.config.robust import RobustSettings
from strategies.methods.fedsub.membership import ClusterWeights
from strategies.parts.averaging import krum, malicious
from strategies.parts.robust_means import ROBUST_MEANS

#: Of members' rows [m, units, width] and weights [m] that sum to 1: the cluster's [units, width].
RowMean = Callable[[Tensor, Tensor], Tensor]
#: In a smaller cluster nobody can tell who is the odd one.
FEWEST = 3


def row_mean(settings: RobustSettings) -> RowMean | None:
    """Return the trimmed mean or the median that a run wants of each cluster, None: neither."""
    if settings.mean == "mean":
        return None

    def mean(rows: Tensor, shares: Tensor) -> Tensor:
        result = ROBUST_MEANS[settings.mean](
            rows.flatten(1).double(), shares, malicious(settings, len(rows))
        )
        return result.view(rows.shape[1:]).to(rows.dtype)

    return mean


def clusters(weights: ClusterWeights) -> Iterator[tuple[int, Tensor, Tensor]]:
    """Yield the clusters with a giver: class, places of the members, places of those who give."""
    for y, inside in enumerate(weights.classes):
        ordered = inside.members[inside.label.argsort(stable=True)]
        for members in torch.split(ordered, torch.bincount(inside.label).tolist()):
            givers = members[weights.contributes[members, y]]
            if len(givers):
                yield y, members, givers


def mixed(
    weights: ClusterWeights,
    rows: Tensor,
    selected: Tensor,
    choice: Tensor,
    mean: RowMean,
    holders: bool = False,
) -> Tensor:
    """Return sum_y choice[u, y] * mean of u's cluster of class y, float32 [n, units, width].

    Parameters
    ----------
    rows : float32 [n, units, width].
    selected : bool [n, classes, units]; a member that did not select a unit counts as zeros.
    choice : float [n, classes, units], how much each client takes from each of its clusters.
    mean : of a cluster's rows.
    holders : bool, of each unit those members alone that selected it.
    """
    centre_of = of_holders if holders else _of_all
    fused = torch.zeros_like(rows)
    for y, inside, givers in clusters(weights):
        shares = weights.weight[givers, y]
        centre = centre_of(rows[givers], selected[givers, y], shares, mean)
        fused[inside] += choice[inside, y, :, None].to(rows.dtype) * centre
    return fused


def _of_all(rows: Tensor, selected: Tensor, shares: Tensor, mean: RowMean) -> Tensor:
    """Return the mean of members' rows [m, units, width], zeros where not `selected`."""
    return mean(rows * selected[:, :, None], shares)


def of_holders(rows: Tensor, selected: Tensor, shares: Tensor, mean: RowMean) -> Tensor:
    """Return the mean over the members with a weight that selected a unit; zeros if nobody did.

    `shares` [m], weights, or [m, units], those in each unit.
    """
    centre = torch.zeros_like(rows[0])
    weight = selected * (shares if shares.ndim > 1 else shares[:, None])
    # Units that the same members hold by the same weights are averaged together.
    columns, unit_of = torch.unique(weight, dim=1, return_inverse=True)
    for place, column in enumerate(columns.T):
        who, units = column > 0, unit_of == place
        if who.any():
            centre[units] = mean(rows[who][:, units], column[who] / column[who].sum())
    return centre


def without_outliers(
    weights: ClusterWeights, rows: list[Tensor], settings: RobustSettings
) -> ClusterWeights:
    """Return the weights after multi-Krum in every cluster: who is left out receives only.

    Distances are between all rows of two clients, those not selected counting as zeros. Where
    nobody with a weight is left, the cluster's others weigh alike.

    Parameters
    ----------
    rows : of each layer, float32 [n, units, width].
    """
    if not settings.multi_krum:
        return weights
    weight, contributes = weights.weight.clone(), weights.contributes.clone()
    for y, _, givers in clusters(weights):
        if len(givers) < FEWEST:
            continue
        points = torch.cat([layer[givers].flatten(1) for layer in rows], dim=1).double()
        kept = givers[krum(torch.cdist(points, points), malicious(settings, len(givers)))]
        contributes[givers, y], contributes[kept, y] = False, True
        left = weights.weight[kept, y]
        total = left.sum()
        weight[givers, y] = 0.0
        weight[kept, y] = left / total if total > 0 else torch.full_like(left, 1 / len(kept))
    return replace(weights, contributes=contributes, weight=weight)
