"""A round's clusters and scores: how much each person counts for others.

Source: FedSub (Campana and Delmastro, journal version), the weights of eq. 6, 8 and 9. A client is
in one cluster of a class at most and counts the same for all in it, so what the papers write as a
matrix over clients is here a number for each client: time and memory grow with the clients.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.sparse import csr_array
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
    cluster : int64 [n, classes]
        Cluster of client u in class y, numbered from 0 in each class; -1 where it is in none.
    weight : float64 [n, classes]
        How much v counts in its cluster of class y: 0 where it does not contribute, else such that
        a cluster's weights sum to 1.
    """

    fusion: str
    reading: str
    contributes: Tensor
    cluster: Tensor
    weight: Tensor

    @cached_property
    def classes(self) -> tuple[Clusters, ...]:
        """The clusters of each class."""
        return tuple(Clusters(label) for label in self.cluster.unbind(1))

    @cached_property
    def shared(self) -> tuple[Clusters, ...]:
        """Those clusters of each class that have more than one member."""
        return tuple(Clusters(label, shared=True) for label in self.cluster.unbind(1))

    @cached_property
    def together(self) -> Clusters:
        """Those of all classes that have more than one member; u * classes + y is u in class y."""
        return Clusters(self._flat, shared=True)

    @cached_property
    def products(self) -> tuple[csr_array, csr_array, NDArray[np.int64]]:
        """Sums of clusters :attr:`together` [clusters, n], who takes them [m, clusters], who.

        float32; `who` are the clients in any of them, int64 [m], ascending.
        """
        inside, classes = self.together, self.cluster.shape[1]
        weight = self.weight.flatten()[inside.members].float()
        takes = inside.matrix(torch.ones_like(weight), classes).T.tocsr()
        who = np.flatnonzero(np.diff(takes.indptr))
        return inside.matrix(weight, classes), takes[who], who

    @cached_property
    def alone(self) -> Tensor:
        """The weight of who is alone in its cluster, elsewhere 0, float64 [n, classes]."""
        alone = torch.where(self.cluster >= 0, self.weight, 0.0).flatten()
        alone[self.together.members] = 0.0
        return alone.view_as(self.weight)

    @cached_property
    def in_cluster(self) -> Tensor:
        """Is u in a cluster of class y that somebody contributes to, bool [n, classes].

        A cluster of imputed members alone has no subnetwork to give and counts as none.
        """
        givers = self.contributes & (self.cluster >= 0)
        return self.summed(givers.double()) > 0

    def summed(self, values: Tensor) -> Tensor:
        """Return the sums of values [n, classes, ...] over u's clusters; 0 where in none."""
        inside, flat = self._every, values.flatten(0, 1)
        if len(inside.members) == len(flat):  # nothing is copied to be summed
            return inside.sums(flat).index_select(0, inside.label).view_as(values)
        sums = torch.zeros_like(flat)
        sums[inside.members] = inside.sums(flat[inside.members]).index_select(0, inside.label)
        return sums.view_as(values)

    @cached_property
    def _every(self) -> Clusters:
        """The clusters of all classes, as in :attr:`together`."""
        return Clusters(self._flat)

    @property
    def _flat(self) -> Tensor:
        """The cluster of each client's each class, int64 [n * classes], another in each class."""
        n, classes = self.cluster.shape
        return torch.where(self.cluster < 0, -1, self.cluster + n * torch.arange(classes)).flatten()


class Clusters:
    """The clusters of one class.

    Parameters
    ----------
    cluster : int64 [n], -1 where a client is in none.
    shared : whether only clusters of at least two are meant.

    Attributes
    ----------
    members : int64 [m], clients in them, ascending.
    label : int64 [m], the cluster of each, from 0.
    heads : int64 [clusters], a member of each.
    """

    def __init__(self, cluster: Tensor, shared: bool = False) -> None:
        members = (cluster >= 0).nonzero().flatten()
        _, label, size = torch.unique(cluster[members], return_inverse=True, return_counts=True)
        if shared:
            kept = size[label] > 1
            members = members[kept]
            _, label = torch.unique(label[kept], return_inverse=True)
        self.members, self.label, self._clients = members, label, len(cluster)
        count = int(label.max()) + 1 if len(label) else 0
        self.heads = torch.zeros(count, dtype=torch.int64).scatter_(0, label, members)
        self._order = label.argsort(stable=True)
        self._ends = np.append(0, torch.bincount(label, minlength=count).cumsum(0).numpy())
        ones = np.ones(len(label), np.float32)
        shape = count, len(label)
        self._adds = csr_array((ones, self._order.numpy(), self._ends), shape=shape)

    @cached_property
    def carried(self) -> tuple[slice | Tensor, Tensor, csr_array, Tensor]:
        """Who to compute for [c], their clusters, what sums [clusters, c], who is inside [c, 1].

        The members; where most clients are, everybody: to copy the others' rows out of the way and
        back takes longer than to carry them along, in no sum, and to multiply what they get by 0.
        """
        if 2 * len(self.members) < self._clients:
            return self.members, self.label, self._adds, torch.ones(len(self.members), 1)
        label = torch.zeros(self._clients, dtype=torch.int64).index_copy(
            0, self.members, self.label
        )
        inside = torch.zeros(self._clients, 1).index_fill(0, self.members, 1.0)
        return slice(None), label, self.matrix(torch.ones(len(self.members))), inside

    def sums(self, values: Tensor) -> Tensor:
        """Return the members' values [m, ...] summed in each cluster, [clusters, ...]."""
        return product(self._adds, values)

    def matrix(self, weight: Tensor, classes: int = 1) -> csr_array:
        """Return [clusters, n], by which a product sums clients by the members' weight [m].

        `classes` : of how many the clusters are.
        """
        data, who = weight[self._order].numpy(), self.members[self._order].numpy() // classes
        return csr_array((data, who, self._ends), (len(self.heads), self._clients // classes))


def product(matrix: csr_array, values: Tensor) -> Tensor:
    """Return a matrix [k, m] times values [m, ...], [k, ...]."""
    result = torch.from_numpy(matrix @ values[:, None].flatten(1).numpy())
    return result.view(matrix.shape[0], *values.shape[1:])


def leaves_alone(fusion: str) -> bool:
    """Whether who is alone in all its clusters gets its own rows back, and not scaled."""
    return fusion != "overlapping-additive"


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

    Raises ConfigError for an unknown fusion; the message names the nearest.
    """
    if fusion not in FUSIONS:
        names = ", ".join(FUSIONS)
        hint = suggestion(fusion, FUSIONS)
        raise ConfigError(f"fusion: got {fusion!r}, expected one of {names}.{hint}")
    label = torch.from_numpy(clusters.copy())
    gives = torch.from_numpy(contributes.copy()) & (label >= 0)
    scores = torch.where(gives, torch.from_numpy(omega.astype(np.float64)), 0.0)
    weight = torch.zeros_like(scores)
    for y in range(label.shape[1]):
        inside = Clusters(label[:, y])
        given, score = gives[inside.members, y], scores[inside.members, y]
        k = inside.label
        greatest = score.new_zeros(len(k)).scatter_reduce(0, k, score, "amax")[k]
        if fusion == "leadership":
            own = _first_of_each(k, given & (score == greatest))
        else:
            # Dividing by the maximum first, as the paper does, keeps tiny scores from vanishing.
            relative = torch.where(greatest > 0, score / greatest, given.double())
            own = relative / inside.sums(relative)[k].clamp(min=1.0)
        weight[inside.members, y] = own
        label[inside.members, y] = k
    return ClusterWeights(fusion, reading, torch.from_numpy(contributes.copy()), label, weight)


def _first_of_each(label: Tensor, mask: Tensor) -> Tensor:
    """Return 1.0 at the first of each label that is in `mask`, 0.0 elsewhere."""
    place = torch.arange(len(label))
    late = torch.where(mask, place, len(label))
    first = torch.full_like(place, len(label)).scatter_reduce(0, label, late, "amin")[label]
    return (mask & (place == first)).double()
