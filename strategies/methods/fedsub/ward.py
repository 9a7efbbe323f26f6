"""How bad the clusters are that Ward's method finds, for every number of clusters at once.

Ward's method joins, from single points on, the two clusters that add the least to the sum of
squares that k-means makes small, so one tree has clusters near k-means' own for every K. Which K
are worth a k-means with its restarts can be read from it: from one K to the next only one cluster
is new, and only its part of an index has to be made anew.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

import numpy as np
from numpy.typing import NDArray
from scipy.cluster.hierarchy import linkage
from scipy.spatial.distance import cdist

from strategies.methods.fedsub.indices import Floats, Labels


def davies_bouldin_by_k(points: Floats, counts: Labels, most: int) -> dict[int, float]:
    """Return the Davies-Bouldin index of Ward's clusters for K = 2 to `most`, or to m - 1.

    Parameters
    ----------
    points : [m, d], distinct, counting `counts` [m] times each (in the index, not in the tree).
    """
    m = len(points)
    most = min(most, m - 1)
    members = [np.array([i]) for i in range(m)]
    joins = _joins(points)
    for i, j in islice(joins, m - most):
        members[i], members[j] = np.append(members[i], members[j]), members[j][:0]
    there = np.array([len(cluster) > 0 for cluster in members])
    centroids, spread = points.copy(), np.zeros(m)
    for i in np.flatnonzero(there).tolist():
        centroids[i], spread[i] = _shape(points, counts, members[i])
    ratio = np.full((m, m), -np.inf)
    for i in np.flatnonzero(there).tolist():
        ratio[i] = _ratios(centroids, spread, there, i)
    # Each cluster's greatest ratio to another, and to which.
    worst, to = ratio.max(1), ratio.argmax(1)
    by_k = {most: float(worst[there].mean())}
    for i, j in islice(joins, most - 2):
        members[i], there[j] = np.append(members[i], members[j]), False
        centroids[i], spread[i] = _shape(points, counts, members[i])
        new = _ratios(centroids, spread, there, i)
        ratio[i], ratio[:, i], ratio[:, j] = new, new, -np.inf
        worse = new > worst
        # Who was worst with a cluster that is gone has to look for another.
        stale = np.flatnonzero(there & ((to == i) | (to == j)))
        worst, to = np.where(worse, new, worst), np.where(worse, i, to)
        for k in (i, *stale):
            worst[k], to[k] = ratio[k].max(), ratio[k].argmax()
        by_k[int(there.sum())] = float(worst[there].mean())
    return by_k


def _shape(points: Floats, counts: Labels, members: Labels) -> tuple[Floats, float]:
    """Return a cluster's centroid, and its members' mean distance from it."""
    if len(members) == 1:
        return points[members[0]], 0.0
    inside, weight = points[members], counts[members]
    centroid = np.average(inside, axis=0, weights=weight)
    away = np.linalg.norm(inside - centroid, axis=1)
    return centroid, float(np.average(away, weights=weight))


def _ratios(centroids: Floats, spread: Floats, there: NDArray[np.bool_], i: int) -> Floats:
    """Return the i-th cluster's ratio to every other, -inf where there is none."""
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = (spread + spread[i]) / np.linalg.norm(centroids - centroids[i], axis=1)
    ratio = np.where(there, np.nan_to_num(ratio, nan=np.inf, posinf=np.inf), -np.inf)
    ratio[i] = -np.inf
    return ratio


def silhouette_by_k(points: Floats, counts: Labels) -> dict[int, float]:
    """Return the mean silhouette of Ward's clusters for K = 2 to m - 1; see the function above."""
    m = len(points)
    distances = cdist(points, points)
    to_cluster, size, own = distances * counts, counts.astype(np.float64), np.arange(m)
    places, by_k = list(range(m)), {}
    for first, second in islice(_joins(points), m - 2):
        i, j = places.index(first), places.index(second)
        del places[j]
        to_cluster[:, i] += to_cluster[:, j]
        size[i] += size[j]
        own[own == j] = i
        to_cluster, size = np.delete(to_cluster, j, axis=1), np.delete(size, j)
        own -= own > j
        mean = to_cluster / size
        others = mean.copy()
        others[np.arange(m), own] = np.inf
        b = others.min(1)
        with np.errstate(divide="ignore", invalid="ignore"):
            a = to_cluster[np.arange(m), own] / (size[own] - 1)
            each = np.where(size[own] > 1, (b - a) / np.maximum(a, b), 0.0)
        by_k[len(size)] = float(np.average(np.nan_to_num(each), weights=counts))
    return by_k


def _joins(points: Floats) -> Iterator[tuple[int, int]]:
    """Yield pairs of joined clusters, named by their first points, i < j: together they are i."""
    name = list(range(len(points)))
    for a, b, _, _ in linkage(points, "ward"):
        i, j = sorted((name[int(a)], name[int(b)]))
        name.append(i)
        yield i, j
