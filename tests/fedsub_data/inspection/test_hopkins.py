from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.neighbors import NearestNeighbors

from fedsub_core.data.federation import read_federation
from fedsub_core.seeds import derive_seed
from fedsub_data.inspection import hopkins as hopkins_module
from fedsub_data.inspection.hopkins import hopkins


def uniform(n: int, d: int, seed: int = 0) -> NDArray[np.float64]:
    return np.random.default_rng(seed).uniform(size=(n, d))


def value_of(x: NDArray[Any], seed: int) -> float:
    """Return the statistic of points that have one."""
    value = hopkins(x, seed)
    assert value is not None
    return value


def clusters(n: int = 300, d: int = 2) -> NDArray[np.float64]:
    rng = np.random.default_rng(1)
    return rng.uniform(0, 10, (3, d))[rng.integers(3, size=n)] + rng.normal(0, 0.02, (n, d))


@pytest.mark.parametrize("d", [1, 2, 5])
def test_uniform_points_are_about_one_half(d: int) -> None:
    values = [value_of(uniform(2000, d, seed), seed) for seed in range(5)]
    assert np.mean(values) == pytest.approx(0.5, abs=0.03)


def test_three_tight_clusters_are_near_one() -> None:
    assert 0.97 < value_of(clusters(), 0) <= 1


def test_a_regular_grid_is_below_one_half() -> None:
    grid = np.stack(np.meshgrid(np.arange(40), np.arange(40)), -1).reshape(-1, 2)
    assert value_of(grid, 0) < 0.35


def test_by_hand_on_a_line() -> None:
    # Ten evenly spaced points: every w is one step, and every u at most half a step.
    x = np.arange(10.0)[:, None]
    std = x.std()
    anywhere = np.random.default_rng(derive_seed(3, "", 0, "hopkins"))
    anywhere.choice(10, 10, replace=False)
    u = anywhere.uniform((0 - x.mean()) / std, (9 - x.mean()) / std, 10) * std + x.mean()
    far = np.abs(u - np.rint(u)).sum()
    assert hopkins(x, 3) == pytest.approx(far / (far + 10))


def test_shift_and_scale_of_each_feature_do_not_matter() -> None:
    x = clusters(d=4)
    moved = x * [1e-3, 1, 50, 1e6] + [5, -7, 1e4, 0]
    assert hopkins(moved, 2) == pytest.approx(hopkins(x, 2), rel=1e-6)


def test_equal_seeds_are_equal_and_the_order_of_points_does_not_matter() -> None:
    x = clusters()
    assert hopkins(x, 5) == hopkins(x[::-1], 5) == hopkins(x.copy(), 5)
    assert hopkins(x, 5) != hopkins(x, 6)


def test_copies_and_constant_features_change_nothing() -> None:
    x = uniform(200, 3)
    value = hopkins(x, 0)
    assert hopkins(np.repeat(x, 4, axis=0), 0) == value
    constant = np.full((200, 1), 0.1)
    assert hopkins(np.hstack([constant, x]), 0) == value


def test_fewer_than_ten_distinct_points_have_none() -> None:
    assert hopkins(uniform(9, 2), 0) is None
    assert hopkins(np.repeat(uniform(9, 2), 5, axis=0), 0) is None
    assert hopkins(np.ones((50, 2)), 0) is None
    assert hopkins(np.empty((0, 2)), 0) is None
    assert 0 <= value_of(uniform(10, 2), 0) <= 1


def test_points_that_copies_alone_made_many_have_none_in_one_feature() -> None:
    # The second feature differs, but a constant first one must not make equal points differ.
    assert hopkins(np.stack([np.zeros(50), np.arange(50) % 9], 1), 0) is None


def test_huge_numbers_and_many_features_stay_finite() -> None:
    x = np.random.default_rng(0).normal(size=(40, 561)).astype(np.float32)
    assert 0 <= value_of(x, 0) <= 1
    assert 0 <= value_of(x * np.float32(1e37), 0) <= 1


@pytest.mark.parametrize("features", [3, 64])
@pytest.mark.parametrize("place", [1, 2])
def test_distances_are_scikit_learns_by_tree_and_by_products(features: int, place: int) -> None:
    rng = np.random.default_rng(features)
    points = rng.normal(size=(2500, features))  # more than are compared at a time
    asked = points[::5] if place == 2 else rng.uniform(-3, 3, (500, features))
    expected = NearestNeighbors().fit(points).kneighbors(asked, place)[0][:, place - 1]
    for found in (hopkins_module._by_tree, hopkins_module._by_products):
        np.testing.assert_allclose(found(points, asked, place), expected, rtol=1e-9)


@pytest.mark.parametrize(
    ("name", "low", "high"), [("wisdm", 0.88, 0.99), ("wesad", 0.92, 0.98), ("uci-har", 0.77, 0.97)]
)
def test_real_classes(real_data: Path, name: str, low: float, high: float) -> None:
    from fedsub_data.inspection.inspection import inspect_federation

    found = inspect_federation(read_federation(real_data / name), 0).hopkins
    values = [value for value in found if value is not None]
    assert len(values) == len(found)
    assert low < min(values) <= max(values) < high
