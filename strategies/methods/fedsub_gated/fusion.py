"""The fused track: what units become, from everybody's mean in the beginning to the clusters' mean.

Unit j of a hidden layer of client u becomes ``(1 - a - p) own + a sum_y g[u, y, j] C[u, y, j] +
p P[j]``: g is class y's share in the unit's relevance, C the weighted mean of those in u's cluster
of class y who selected the unit, P that of all who did. Row y of the output layer becomes
``(1 - p) C[u, y] + p P[y]``. Early rounds mix everybody as FedAvg does, later ones who is alike.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from strategies.methods.fedsub.fusion import taken
from strategies.methods.fedsub.membership import ClusterWeights
from strategies.methods.fedsub.robust import RowMean, mixed, of_holders

#: Smallest number that is divided by.
LEAST = 1e-300
#: Share of the run over which everybody's mean is replaced by the clusters' means.
ANNEALED = 0.8


@dataclass(frozen=True)
class Mix:
    """How much of a hidden unit comes from clusters (`alike`) and from everybody (`all`)."""

    alike: float
    all: float


def annealed(round: int, rounds: int) -> Mix:
    """Return the mix of a round: everybody's mean is gone after :data:`ANNEALED` of the run."""
    q = max(0.0, 1 - (round - 1) / (ANNEALED * rounds))
    return Mix((1 - q) / 2, q)


def fuse_layer(
    weights: ClusterWeights,
    rows: Tensor,
    masks: Tensor,
    shares: Tensor | None,
    common: tuple[Tensor, Tensor],
    mix: Mix,
    mean: RowMean | None,
) -> tuple[Tensor, Tensor]:
    """Return one layer's new rows float32 [n, units, width], and which are replaced [n, units].

    Parameters
    ----------
    weights : everybody's clusters.
    rows : float32 [n, units, width], zero where a client selected the unit in no class.
    masks : bool [n, classes, units].
    shares : float32 [n, classes, units], each class's share in a unit's relevance; None: the
        output layer, whose unit y is class y's alone.
    common : of :func:`everybodys`.
    mean : what a cluster makes of its rows instead of the weighted mean.
    """
    selected = masks & weights.contributes[:, :, None]
    holds = weights.summed(weights.weight[:, :, None] * selected)
    known = selected.any(1)
    if shares is None:
        importance = torch.eye(masks.shape[1], dtype=torch.float64) * (holds > 0)
        alike = 1 - mix.all
        # A class that none of u's clusters holds is everybody's alone.
        all_ = torch.where(importance.any(1), mix.all, 1.0)
    else:
        # Who did not select a unit has no say in it: the clusters that hold it count alike.
        importance = torch.where(known[:, None], shares.double().clamp(min=0) * selected, 1.0)
        importance *= holds > 0
        alike, all_ = mix.alike, torch.full(known.shape, mix.all)
    total = importance.sum(1, keepdim=True)
    choice = torch.where(total > 0, alike * importance / total.clamp(min=LEAST), 0.0)
    everybody, anybody = common
    all_ = all_ * anybody
    given = choice.sum(1) + all_
    # What nobody gives of a unit is one's own; the server does not know rows that are not selected.
    own = torch.where(known, 1 - given, 0.0)
    factor = torch.where(known, 1.0, 1 / given.clamp(min=LEAST))
    choice, all_ = choice * factor[:, None], all_ * factor
    if mean is not None:
        fused = mixed(weights, rows, selected, choice, mean, holders=True)
        fused += own[:, :, None].to(rows.dtype) * rows
    else:
        of_holder = torch.where(holds > 0, choice / holds.clamp(min=LEAST), 0.0)
        fused = taken(weights, rows, of_holder, selected, own)
    fused += all_[:, :, None].to(rows.dtype) * everybody
    replaced = given > 0
    return fused.mul_(replaced[:, :, None]), replaced


def everybodys(
    weights: ClusterWeights, rows: Tensor, masks: Tensor, omega: Tensor, mean: RowMean | None
) -> tuple[Tensor, Tensor]:
    """Return the mean of all who selected each unit [units, width], and which anybody did [units].

    As in :func:`fuse_layer`; `omega` float32 [n, classes], scores.
    """
    selected = masks & weights.contributes[:, :, None]
    weight = (omega.double()[:, :, None] * selected).sum(1)
    total = weight.sum(0)
    if mean is not None:
        return of_holders(rows, selected.any(1), weight, mean), total > 0
    shares = torch.where(total > 0, weight / total.clamp(min=LEAST), 0.0)
    return torch.einsum("nu,nuw->uw", shares.to(rows.dtype), rows), total > 0
