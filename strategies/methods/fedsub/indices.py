"""How well clusters of prototypes stand apart: the indices by which K is chosen, and shown."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

Labels = NDArray[np.int64]
Floats = NDArray[np.float64]

#: Entries of a matrix of clusters, beyond which it is held a part at a time: of ten thousand
#: prototypes in nearly as many clusters it has 800 MB.
ENTRIES = 2**24


def davies_bouldin(points: Floats, counts: Labels) -> Callable[[Labels], float]:
    """Return the Davies-Bouldin index as a function of labels, for points [m, d] with counts [m].

    The same number as scikit-learn's ``davies_bouldin_score`` on points repeated `counts` times.
    That function visits clusters in Python and takes several times as long as the k-means whose
    results it judges; this one is a few products of small matrices.
    """
    from scipy.sparse import csr_matrix
    from sklearn.metrics import pairwise_distances

    def index(labels: Labels) -> float:
        clusters = labels.max() + 1
        member: Any
        if clusters * len(labels) <= ENTRIES:
            member = (labels == np.arange(clusters)[:, None]) * counts
        else:
            member = csr_matrix((counts, (labels, np.arange(len(labels)))))
        size = np.bincount(labels, counts)
        centroids = member @ points / size[:, None]
        spread = member @ np.linalg.norm(points - centroids[labels], axis=1) / size
        rows, worst = max(1, ENTRIES // clusters), []
        for i in range(0, clusters, rows):
            apart = pairwise_distances(
                centroids[i : i + rows], None if rows >= clusters else centroids
            )
            np.fill_diagonal(apart[:, i:], np.inf)
            # Two clusters with one centroid cannot be told apart, the worst there is; scikit-learn
            # calls them perfect instead.
            with np.errstate(divide="ignore", invalid="ignore"):
                ratio = (spread[i : i + rows, None] + spread) / apart
            worst.append(np.nan_to_num(ratio, nan=np.inf, posinf=np.inf).max(axis=1))
        return float(np.concatenate(worst).mean())

    return index


def quality(prototypes: NDArray[np.floating[Any]], labels: Labels) -> dict[str, float]:
    """Return indices of how well clusters [n] of prototypes [n, d] stand apart; {}: undefined.

    ``davies_bouldin`` (less is better) and ``calinski_harabasz`` (more is better), as the paper's
    Fig. 3 shows them. Both need 2 to n - 1 clusters of distinct centres; the first may be infinite
    where two centres are one.
    """
    if not 1 < labels.max() + 1 < len(labels):
        return {}
    from sklearn.metrics import calinski_harabasz_score

    points = prototypes.astype(np.float64)
    each = np.ones(len(points), np.int64)
    return {
        "davies_bouldin": davies_bouldin(points, each)(labels),
        "calinski_harabasz": float(calinski_harabasz_score(points, labels)),
    }


def silhouette_badness(points: Floats, counts: Labels) -> Callable[[Labels], float]:
    """Return minus the mean silhouette as a function of labels; distances are computed once."""
    from sklearn.metrics import pairwise_distances, silhouette_score

    distances = pairwise_distances(np.repeat(points, counts, axis=0))

    def badness(labels: Labels) -> float:
        repeated = np.repeat(labels, counts)
        return -float(silhouette_score(distances, repeated, metric="precomputed"))

    return badness
