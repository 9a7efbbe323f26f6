"""Ward's clusters of every K at once, against clusters and indices made one by one."""

import numpy as np
import pytest
from scipy.cluster.hierarchy import cut_tree, linkage
from sklearn.metrics import silhouette_score

from strategies.methods.fedsub.indices import davies_bouldin
from strategies.methods.fedsub.ward import davies_bouldin_by_k, silhouette_by_k


@pytest.mark.parametrize(("m", "d", "most"), [(3, 1, 1), (5, 2, 3), (36, 3, 1), (60, 18, 4)])
def test_every_k_at_once_is_every_k_by_itself(m: int, d: int, most: int) -> None:
    stream = np.random.default_rng(m)
    points, counts = stream.normal(size=(m, d)), stream.integers(1, most + 1, m)
    tree, index = cut_tree(linkage(points, "ward")), davies_bouldin(points, counts)
    found, scores = davies_bouldin_by_k(points, counts, m), silhouette_by_k(points, counts)
    assert set(found) == set(scores) == set(range(2, m))
    for k in found:
        labels = np.unique(tree[:, m - k], return_inverse=True)[1]
        assert found[k] == pytest.approx(index(labels))
        repeated = np.repeat(points, counts, axis=0)
        expected = silhouette_score(repeated, np.repeat(labels, counts))
        assert scores[k] == pytest.approx(expected, abs=1e-7)


def test_the_least_k_alone_are_judged_alike() -> None:
    points = np.random.default_rng(7).normal(size=(50, 3))
    counts = np.ones(50, np.int64)
    whole = davies_bouldin_by_k(points, counts, 50)
    assert davies_bouldin_by_k(points, counts, 7) == {k: whole[k] for k in range(2, 8)}
