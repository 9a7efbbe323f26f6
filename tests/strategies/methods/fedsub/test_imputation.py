"""Prototypes predicted from similar clients, against the algorithm written out."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from strategies.methods.fedsub.imputation import client_similarity, impute

Array = NDArray[Any]


def reference(prototypes: Array, has: Array, neighbours: int) -> tuple[Array, Array]:
    """Algorithm 3 of the first version, one client and one class at a time."""
    n, classes, _ = prototypes.shape
    s = np.zeros((n, n))
    for u in range(n):
        for v in range(n):
            cosines = []
            for y in range(classes):
                if has[u, y] and has[v, y]:
                    p, q = prototypes[u, y], prototypes[v, y]
                    length = np.linalg.norm(p) * np.linalg.norm(q)
                    cosines.append(p @ q / length if length > 0 else 0.0)
            s[u, v] = np.mean(cosines) if cosines else 0.0
    completed, imputed = np.where(has[:, :, None], prototypes, 0.0), np.zeros_like(has)
    for u in range(n):
        for y in range(classes):
            if has[u, y]:
                continue
            others = [v for v in range(n) if has[v, y] and s[u, v] > 1e-12]
            chosen = sorted(others, key=lambda v: (-round(s[u, v], 12), v))[:neighbours]
            if chosen:
                weights = sum(s[u, v] for v in chosen)
                completed[u, y] = sum(s[u, v] * prototypes[v, y] for v in chosen) / weights
                imputed[u, y] = True
    return completed, imputed


@given(
    st.integers(0, 2**32 - 1),
    st.integers(1, 7),
    st.integers(1, 4),
    st.integers(1, 3),
    st.integers(1, 8),
    st.floats(0, 1),
)
def test_equals_the_reference(
    seed: int, n: int, classes: int, d: int, neighbours: int, share: float
) -> None:
    rng = np.random.default_rng(seed)
    prototypes, has = rng.normal(size=(n, classes, d)), rng.random((n, classes)) < share
    completed, imputed = impute(prototypes, has, neighbours)
    expected, expected_imputed = reference(prototypes, has, neighbours)
    assert (imputed == expected_imputed).all()
    np.testing.assert_allclose(completed, expected, rtol=1e-9, atol=1e-9)


def test_by_hand() -> None:
    # Client 0 lacks class 1. On class 0 its cosine is 1 with client 1 and 0.6 with client 2.
    prototypes = np.zeros((3, 2, 2))
    prototypes[:, 0] = [[1, 0], [5, 0], [3, 4]]
    prototypes[:, 1] = np.array([[np.nan, np.nan], [8, 0], [0, 16]])
    has = np.array([[True, False], [True, True], [True, True]])
    completed, imputed = impute(prototypes, has, 5)
    assert completed[0, 1] == pytest.approx([8 / 1.6, 0.6 * 16 / 1.6])
    assert imputed.tolist() == [[False, True], [False, False], [False, False]]
    nearest_only, _ = impute(prototypes, has, 1)
    assert nearest_only[0, 1] == pytest.approx([8, 0])


def test_similarity_is_the_mean_cosine_over_shared_classes() -> None:
    prototypes = np.array([[[1.0, 0], [0, 2]], [[0, 3.0], [0, 1]], [[1.0, 0], [0, 0]]])
    has = np.array([[True, True], [True, True], [True, False]])
    similarity = client_similarity(prototypes, has)
    assert similarity.tolist() == [[1, 0.5, 1], [0.5, 1, 0], [1, 0, 1]]


def test_opposite_clients_and_strangers_predict_nothing() -> None:
    prototypes = np.array([[[1.0], [0], [0]], [[-1.0], [7], [0]], [[0.0], [7], [7]]])
    has = np.array([[True, False, False], [True, True, False], [False, True, True]])
    completed, imputed = impute(prototypes, has, 5)
    # Client 1 opposes client 0, client 2 shares no class with it: 0 gets nothing.
    # 1 and 2 share class 1 and predict for each other.
    assert imputed.tolist() == [[False] * 3, [False, False, True], [True, False, False]]
    assert completed[0].tolist() == [[1], [0], [0]]
    assert completed[1, 2] == pytest.approx([7])


def test_a_negative_neighbour_does_not_pull() -> None:
    prototypes = np.array([[[1.0, 0], [0, 0]], [[1.0, 0], [4, 0]], [[-1.0, 0], [100, 0]]])
    has = np.array([[True, False], [True, True], [True, True]])
    assert impute(prototypes, has, 5)[0][0, 1] == pytest.approx([4, 0])


def test_predicted_prototypes_predict_nothing() -> None:
    # 0 knows 1 (class 0), 1 knows 2 (class 1); class 2 is 2's: it reaches 1 but not 0.
    prototypes = np.ones((3, 3, 2))
    has = np.array([[True, False, False], [True, True, False], [False, True, True]])
    assert impute(prototypes, has, 5)[1].tolist() == [
        [False, True, False],
        [False, False, True],
        [True, False, False],
    ]


def test_ties_go_to_the_smallest_index() -> None:
    """Forty clients of one direction and different lengths: cosines of 1, but for rounding."""
    lengths = np.random.default_rng(0).uniform(0.1, 10, 40)
    prototypes = np.zeros((40, 2, 3))
    prototypes[:, 0] = lengths[:, None] * np.array([1.0, 0.3, 0.7])
    prototypes[:, 1] = np.arange(40)[:, None]
    has = np.ones((40, 2), bool)
    has[[0, 39], 1] = False
    completed, _ = impute(prototypes, has, 3)
    np.testing.assert_allclose(completed[[0, 39], 1], (1 + 2 + 3) / 3)


def test_a_prototype_of_zeros_is_similar_to_nobody() -> None:
    prototypes = np.array([[[0.0, 0], [0, 0]], [[1, 1], [2, 2]]])
    has = np.array([[True, False], [True, True]])
    completed, imputed = impute(prototypes, has, 5)
    assert not imputed.any() and np.isfinite(completed).all()


@pytest.mark.parametrize("scale", [1e-200, 1e200])
def test_extreme_lengths_stay_finite(scale: float) -> None:
    prototypes = np.full((2, 2, 3), scale)
    completed, imputed = impute(prototypes, np.array([[True, False], [True, True]]), 5)
    assert imputed[0, 1]
    np.testing.assert_allclose(completed[0, 1], scale, rtol=1e-12)


def test_permuting_clients_permutes_the_result() -> None:
    rng = np.random.default_rng(0)
    prototypes, has = rng.normal(size=(20, 4, 6)), rng.random((20, 4)) < 0.5
    order = rng.permutation(20)
    completed, imputed = impute(prototypes, has, 3)
    permuted, permuted_imputed = impute(prototypes[order], has[order], 3)
    assert imputed.any() and (permuted_imputed == imputed[order]).all()
    np.testing.assert_allclose(permuted, completed[order], atol=1e-12)


def test_known_prototypes_and_the_inputs_are_untouched() -> None:
    rng = np.random.default_rng(1)
    prototypes, has = rng.normal(size=(9, 3, 2)).astype(np.float32), rng.random((9, 3)) < 0.5
    given_prototypes, given_has = prototypes.copy(), has.copy()
    completed, imputed = impute(prototypes, has, 5)
    assert completed.dtype == np.float64 and not (imputed & has).any()
    assert (completed[has] == prototypes[has]).all()
    assert (prototypes == given_prototypes).all() and (has == given_has).all()
