"""Hopkins statistic: whether points form clusters or lie anywhere in their space.

Hopkins and Skellam 1954; which exponent is used where: Wright 2022,
doi:10.32614/RJ-2022-055.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.spatial import KDTree

from fedsub_core.seeds import derive_seed

#: Fewer distinct points than these have no statistic.
LEAST_POINTS = 10

#: Points compared at most: seeds then differ by a standard deviation of at most 0.004 on real data.
SAMPLED = 1000

#: With more features a tree looks at nearly all points, and products of matrices are faster.
_TREE_FEATURES = 15
#: Points that are compared at a time.
_AT_A_TIME = 1024

FloatArray = NDArray[np.float64]


def hopkins(x: NDArray[Any], seed: int) -> float | None:
    """Return the Hopkins statistic of ``x [n, F]``, in [0, 1], or None below ten distinct points.

    ``H = sum(u) / (sum(u) + sum(w))``. Each u is the distance from a uniform random point in the
    bounding box of `x` to the nearest point of `x`; each w is the distance from a point drawn from
    `x` to the nearest other one. About 0.5: as random points; near 1: clustered. Exponent 1 is what
    most software computes: it gives 0.89 to 0.98 on the classes of WISDM and WESAD, where the
    FedSub papers, which do not name their form, print 0.89 to 0.99 for HHAR and WESAD. The form
    with the number of features as exponent is above 0.99 for every class of WISDM, WESAD and UCI
    HAR: it compares nothing.

    Parameters
    ----------
    x : [n, F]
        Points in any unit: every feature is standardised first, and one that is constant left out.
        Equal points count once: a copied sample would have distance 0 and pass for a cluster.
    seed : seed of the random points and of the points drawn (1000, or all where there are fewer).

    Notes
    -----
    Above 0.5 does not mean groups of people. Data that are dense in the middle or on a curve of
    their box are more clustered than uniform ones: one normal cloud of 1000 points has 0.76 in 3
    features. Few points have a lower value than many: 10 uniform points have 0.40 to 0.47.
    """
    points = np.unique(x, axis=0).astype(np.float64)
    points = points[:, np.ptp(points, axis=0) > 0] if len(points) else points
    if len(points) < LEAST_POINTS:
        return None
    spread = points.std(axis=0)
    points -= points.mean(axis=0)
    points /= spread
    # Derived, because data made from the same seed would else hold the random points themselves.
    rng = np.random.default_rng(derive_seed(seed, "", 0, "hopkins"))
    drawn = rng.choice(points, min(SAMPLED, len(points)), replace=False)
    anywhere = rng.uniform(points.min(axis=0), points.max(axis=0), drawn.shape)
    to_nearest = _by_tree if points.shape[1] <= _TREE_FEATURES else _by_products
    u = to_nearest(points, anywhere, 1)
    w = to_nearest(points, drawn, 2)  # the nearest is the point itself
    far, near = u.sum(), w.sum()
    return float(far / (far + near))


def _by_tree(points: FloatArray, asked: FloatArray, place: int) -> FloatArray:
    """Return the distance from each of `asked` to its `place`-th nearest point."""
    # A balanced tree would take longer to build than a thousand points take to be looked up.
    tree = KDTree(points, compact_nodes=False, balanced_tree=False)
    distance: FloatArray = tree.query(asked, [place])[0][:, 0]
    return distance


def _by_products(points: FloatArray, asked: FloatArray, place: int) -> FloatArray:
    """Return those distances by products; scikit-learn would do, but takes 100 MB to load."""
    best = np.full((len(asked), place), np.inf)
    own = np.square(asked).sum(axis=1)[:, None]
    for start in range(0, len(points), _AT_A_TIME):
        part = points[start : start + _AT_A_TIME]
        squares = own + np.square(part).sum(axis=1) - 2 * (asked @ part.T)
        near = np.hstack([best, squares])
        best = np.partition(near, place - 1, axis=1)[:, :place]
    distance: FloatArray = np.sqrt(np.maximum(best[:, place - 1], 0))
    return distance
