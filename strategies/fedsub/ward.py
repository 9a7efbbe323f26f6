"""How bad the clusters are that Ward's method finds, for every number of clusters at once.

Ward's method joins, from single points on, the two clusters that add the least to the sum of
squares that k-means makes small, so one tree has clusters near k-means' own for every K. Which K
are worth a k-means with its restarts can be read from it: from one K to the next only one cluster
is new, and only its part of an index has to be made anew.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from scipy.cluster.hierarchy import linkage
from scipy.spatial.distance import cdist

from strategies.fedsub.indices import Floats, Labels


def davies_bouldin_by_k(points: Floats, counts: Labels) -> dict[int, float]:
    """Return the Davies-Bouldin index of Ward's clusters for K = 2 to m - 1.

    Parameters
    ----------
    points : [m, d], distinct, counting `counts` [m] times each (in the index, not in the tree).
    """
    m = len(points)
    members = [np.array([i]) for i in range(m)]
    centroids, spread = points.copy(), np.zeros(m)
    ratio = np.zeros((m, m))
    np.fill_diagonal(ratio, -np.inf)
    # Each cluster's greatest ratio to another, and to which.
    worst, to = ratio.max(1), ratio.argmax(1)
    found = {}
    for i, j in _joins(points):
        members[i] = np.append(members[i], members[j])
        inside, weight = points[members[i]], counts[members[i]]
        centroids[i] = np.average(inside, axis=0, weights=weight)
        away = np.linalg.norm(inside - centroids[i], axis=1)
        spread[i] = np.average(away, weights=weight)
        left = np.delete(np.arange(len(members)), j)
        members = [members[k] for k in left]
        centroids, spread, worst = centroids[left], spread[left], worst[left]
        # Who was worst with a cluster that is gone has to look for another.
        stale = np.isin(to[left], (i, j))
        to = to[left] - (to[left] > j)
        ratio = ratio[np.ix_(left, left)]
        i -= int(j < i)
        with np.errstate(divide="ignore", invalid="ignore"):
            new = (spread + spread[i]) / np.linalg.norm(centroids - centroids[i], axis=1)
        new = np.nan_to_num(new, nan=np.inf, posinf=np.inf)
        new[i] = -np.inf
        ratio[i], ratio[:, i] = new, new
        stale[i] = True
        worse = new > worst
        worst, to = np.where(worse, new, worst), np.where(worse, i, to)
        worst[stale], to[stale] = ratio[stale].max(1), ratio[stale].argmax(1)
        if len(members) > 1:
            found[len(members)] = float(worst.mean())
    return found


def silhouette_by_k(points: Floats, counts: Labels) -> dict[int, float]:
    """Return the mean silhouette of Ward's clusters for K = 2 to m - 1; see the function above."""
    m = len(points)
    distances = cdist(points, points)
    to_cluster, size, own = distances * counts, counts.astype(np.float64), np.arange(m)
    found = {}
    for i, j in _joins(points):
        to_cluster[:, i] += to_cluster[:, j]
        size[i] += size[j]
        own[own == j] = i
        to_cluster, size = np.delete(to_cluster, j, axis=1), np.delete(size, j)
        own -= own > j
        if len(size) > 1:
            mean = to_cluster / size
            others = mean.copy()
            others[np.arange(m), own] = np.inf
            b = others.min(1)
            with np.errstate(divide="ignore", invalid="ignore"):
                a = to_cluster[np.arange(m), own] / (size[own] - 1)
                each = np.where(size[own] > 1, (b - a) / np.maximum(a, b), 0.0)
            found[len(size)] = float(np.average(np.nan_to_num(each), weights=counts))
    return found


def _joins(points: Floats) -> Iterator[tuple[int, int]]:
    """Yield the places i < j of clusters that are joined; j goes, and all after it move up."""
    places = list(range(len(points)))
    at = {i: i for i in places}
    for step, (a, b, _, _) in enumerate(linkage(points, "ward")):
        i, j = sorted((at.pop(int(a)), at.pop(int(b))))
        yield i, j
        at = {name: place - (place > j) for name, place in at.items()}
        at[len(points) + step] = i
