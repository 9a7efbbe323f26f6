"""Clients divided by their distances: agglomerative clustering, by a threshold or into K groups."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fedsub_core.extras import require

# It takes 100 MB, and SciPy half a second, so whatever uses them loads them there: to check a run's
# settings needs none of them.
# That it is lacking is said when a method is chosen, and not in its first round.
require("to divide clients", "sklearn")

#: Everybody's group, int64 [clients], 0 for the first client, numbered by first appearance.
Labels = NDArray[np.int64]


def divided_below(distances: NDArray[np.float64], linkage: str, threshold: float) -> Labels:
    """Return groups that are no farther apart than `threshold`, int64 [n], 0 for the first client.

    Agglomerative clustering: the two nearest groups are joined until the nearest are farther apart.

    Parameters
    ----------
    distances : [n, n], symmetric, 0 on the diagonal.
    linkage : ``average``, ``complete`` or ``single``: what the distance of two groups is.
    """
    if len(distances) < 2:
        return np.zeros(len(distances), np.int64)
    from scipy.cluster.hierarchy import fcluster

    return by_first_appearance(fcluster(_tree(distances, linkage), threshold, "distance"))


def divided_into(distances: NDArray[np.float64], linkage: str, selection: str) -> Labels:
    """Return ``fixed:K`` groups, or as many as have the greatest mean ``silhouette``.

    K is at most n. The silhouette is tried for K = 2 to n - 1, ties go to the smallest; of two
    clients each is alone, unless they are equal. See :func:`divided_below`.
    """
    n = len(distances)
    if n < 2:
        return np.zeros(n, np.int64)
    from scipy.cluster.hierarchy import cut_tree

    tree = _tree(distances, linkage)
    rule, _, number = selection.partition(":")
    if rule == "fixed":
        return by_first_appearance(cut_tree(tree, min(int(number), n))[:, 0])
    if n == 2:
        return np.arange(2) if distances[0, 1] > 0 else np.zeros(2, np.int64)
    from sklearn.metrics import silhouette_score

    cuts = [cut_tree(tree, k)[:, 0] for k in range(2, n)]
    scores = [silhouette_score(distances, labels, metric="precomputed") for labels in cuts]
    return by_first_appearance(cuts[int(np.argmax(np.round(scores, 12)))])


def _tree(distances: NDArray[np.float64], linkage: str) -> NDArray[np.float64]:
    """Return the tree of a hierarchical clustering, in SciPy's form."""
    from scipy.cluster.hierarchy import linkage as hierarchy
    from scipy.spatial.distance import squareform

    return np.asarray(hierarchy(squareform(distances, checks=False), linkage), np.float64)


def by_first_appearance(labels: NDArray[np.integer]) -> Labels:
    """Renumber labels [n] by the position at which each first appears."""
    _, first, inverse = np.unique(labels, return_index=True, return_inverse=True)
    order = np.argsort(np.argsort(first))
    return order[inverse].astype(np.int64)
