"""Who counts how much for whom: a round's clusters and scores as matrices over clients.

Source: FedSub (Campana and Delmastro, journal version), the weights of eq. 6, 8 and 9.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fedsub_core.errors import ConfigError
from fedsub_core.methods.fedsub import FUSIONS, READINGS
from fedsub_core.options import suggestion


@dataclass(frozen=True)
class ClusterWeights:
    """One round's clusters, as every layer's fusion needs them.

    Parameters
    ----------
    fusion, reading : str
        One of ``fedsub_core.methods.fedsub.FUSIONS``, and of ``READINGS``.
    contributes : bool [n, classes]
        Does client v have a subnetwork of its own for class y.
    member : bool [classes, n, n]
        Is v a contributing member of the cluster of class y that u is in.
    weight : float64 [classes, n, n]
        How much v counts in that cluster; row u sums to 1, or is all 0 where `member` is.
    """

    fusion: str
    reading: str
    contributes: Tensor
    member: Tensor
    weight: Tensor

    @property
    def in_cluster(self) -> Tensor:
        """Is u in a cluster of class y that somebody contributes to, bool [n, classes].

        A cluster of imputed members alone has no subnetwork to give and counts as none.
        """
        return self.member.any(2).T

    @property
    def clusters_of(self) -> Tensor:
        """Clusters that u is in, int64 [n]: the size of C^u in eq. 7, 8 and 10."""
        return self.in_cluster.sum(1)


def cluster_weights(
    fusion: str,
    clusters: NDArray[np.int64],
    contributes: NDArray[np.bool_],
    omega: NDArray[np.floating[Any]],
    reading: str = READINGS[0],
) -> ClusterWeights:
    """Return the weights of one round's clusters.

    Under ``leadership`` all weight is with the member of greatest omega (ties: the smallest
    index); otherwise weights are in proportion to omega. A cluster whose omegas are all zero
    weighs its members equally.

    Parameters
    ----------
    fusion : str
        One of ``fedsub_core.methods.fedsub.FUSIONS``.
    clusters : int64 [n, classes]
        Cluster of client u in class y, -1 where it is in none.
    contributes : bool [n, classes]
        False for imputed members, which receive and never give.
    omega : float [n, classes]
        Scores, >= 0; read only where `contributes`.
    reading : str
        One of ``fedsub_core.methods.fedsub.READINGS``, of ``avg`` and ``leadership``.

    Raises
    ------
    ConfigError
        Unknown fusion; the message names the nearest.
    """
    if fusion not in FUSIONS:
        names = ", ".join(FUSIONS)
        hint = suggestion(fusion, FUSIONS)
        raise ConfigError(f"fusion: got {fusion!r}, expected one of {names}.{hint}")
    label, gives = torch.from_numpy(clusters.T.copy()), torch.from_numpy(contributes.T.copy())
    score = torch.from_numpy(omega.T.astype(np.float64))
    member = (label[:, :, None] == label[:, None, :]) & (label >= 0)[:, :, None] & gives[:, None]
    scores = torch.where(member, score[:, None, :], 0.0)
    greatest = scores.amax(2, keepdim=True)
    if fusion == "leadership":
        weight = _first(member & (scores == greatest)).double()
    else:
        # Dividing by the maximum first, as the paper does, also keeps tiny scores from vanishing.
        relative = torch.where(greatest > 0, scores / greatest, member.double())
        weight = relative / relative.sum(2, keepdim=True).clamp(min=1.0)
    return ClusterWeights(fusion, reading, torch.from_numpy(contributes.copy()), member, weight)


def _first(mask: Tensor) -> Tensor:
    """Keep the first true entry of each row of a bool tensor."""
    return mask & (mask.cumsum(-1) == 1)
