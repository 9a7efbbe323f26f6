"""Clusters of prototypes: the number of them, their order, and what rounding must not change."""

import tomllib
import warnings
from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from sklearn.cluster import KMeans
from sklearn.metrics import davies_bouldin_score, silhouette_score
from threadpoolctl import threadpool_info, threadpool_limits

from fedsub.testing.cover import turns
from strategies.methods.fedsub import clustering, indices
from strategies.methods.fedsub.clustering import (
    cluster,
    cluster_classes,
)
from strategies.methods.fedsub.indices import davies_bouldin, quality

Array = NDArray[Any]
Points = dict[int, Array]

RULES = ["dbi", "dbi-capped", "silhouette", "fixed:1", "fixed:3", "fixed:99"]


@pytest.fixture(scope="module")
def wisdm(real_data: Path) -> Points:
    """Class means of standardised features: {class: float64 [clients that have it, 3]}."""
    folder = real_data / "wisdm"
    if not folder.is_dir():
        pytest.skip(f"no WISDM federation at {folder}; set FEDSUB_DATA to the folder that holds it")
    classes = len(tomllib.loads((folder / "federation.toml").read_text())["classes"])
    clients = [np.load(path) for path in sorted((folder / "clients").glob("*.npz"))]
    data = [(c["x"].astype(np.float64), c["y"]) for c in clients]
    everything = np.concatenate([x for x, _ in data])
    mean, std = everything.mean(0), everything.std(0)
    return {
        y: np.stack([((x[c == y] - mean) / std).mean(0) for x, c in data if (c == y).any()])
        for y in range(classes)
    }


def blobs(sizes: Sequence[int], seed: int = 0, apart: float = 100.0) -> Array:
    rng = np.random.default_rng(seed)
    centres = apart * np.arange(len(sizes))[:, None] * np.ones(2)
    return np.concatenate(
        [c + rng.normal(size=(s, 2)) for c, s in zip(centres, sizes, strict=True)]
    )


def partition(labels: Array) -> Array:
    """The partition as a matrix, which forgets how clusters are numbered."""
    same: Array = labels[:, None] == labels[None, :]
    return same


@pytest.mark.parametrize("rule", ["dbi", "dbi-capped", "silhouette", "fixed:3"])
def test_well_separated_groups_are_found(rule: str) -> None:
    points = blobs([5, 4, 6])
    # Under dbi a group may be split until single points remain, so its blobs are tight copies.
    if rule == "dbi":
        points = np.round(points, -2)
    assert cluster(points, rule, 1).tolist() == [0] * 5 + [1] * 4 + [2] * 6


@pytest.mark.parametrize("score", ["dbi", "silhouette"])
def test_k_is_the_best_of_scikit_learns_own_scores(score: str, wisdm: Points) -> None:
    """The index at the chosen K is as good as the best that scikit-learn finds anywhere."""
    points, least = min(wisdm.values(), key=len), np.inf
    sign, index = (1, davies_bouldin_score) if score == "dbi" else (-1, silhouette_score)
    for k in range(2, len(points)):
        labels = KMeans(k, n_init=5, random_state=3).fit_predict(points)
        least = min(least, sign * index(points, labels))
    ours = sign * index(points, cluster(points, score, 3))
    # Two different local optima of k-means may differ a little; a wrong K differs by more.
    assert ours <= least + 0.02, f"{ours} against {least}"


@given(st.integers(0, 2**32 - 1), st.integers(3, 20), st.integers(1, 5))
def test_davies_bouldin_is_scikit_learns(seed: int, m: int, d: int) -> None:
    rng = np.random.default_rng(seed)
    points, counts = rng.normal(size=(m, d)), rng.integers(1, 4, m)
    counts[0] = 2  # scikit-learn wants fewer clusters than samples
    labels = np.concatenate([[0, 1], rng.integers(0, 2, m - 2)])
    labels[m // 2 :] += rng.integers(0, 2)
    labels = np.unique(labels, return_inverse=True)[1]
    expected = davies_bouldin_score(np.repeat(points, counts, axis=0), np.repeat(labels, counts))
    # scikit-learn's distance of a lone point to itself is 1e-8, ours 0; centroids may be close.
    assert davies_bouldin(points, counts)(labels) == pytest.approx(expected, rel=1e-6, abs=1e-5)


def test_quality_is_what_the_papers_figure_shows() -> None:
    """Two pairs, 1 wide and 10 apart: spreads .5 and .5; sums of squares 100 between, 1 within."""
    points, labels = np.array([[0.0], [1.0], [10.0], [11.0]]), np.array([0, 0, 1, 1])
    assert quality(points, labels) == pytest.approx(
        {"davies_bouldin": (0.5 + 0.5) / 10, "calinski_harabasz": 100 / (1 / 2)}
    )
    for labels in (np.zeros(4, np.int64), np.arange(4)):
        assert quality(points, labels) == {}


@pytest.mark.parametrize("entries", [1, 100, 500])
def test_davies_bouldin_of_many_clusters_is_the_same_a_part_at_a_time(
    entries: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(0)
    points, counts = rng.normal(size=(40, 3)), rng.integers(1, 4, 40)
    labels = np.concatenate([np.arange(20), rng.integers(0, 20, 20)])
    whole = davies_bouldin(points, counts)(labels)
    monkeypatch.setattr(indices, "ENTRIES", entries)
    assert davies_bouldin(points, counts)(labels) == pytest.approx(whole, rel=1e-12)


def test_davies_bouldin_by_hand() -> None:
    # Spreads 1 and 2, centroids 10 apart: (1 + 2) / 10 for both.
    points = np.array([[0.0], [2.0], [9.0], [13.0]])
    index = davies_bouldin(points, np.ones(4, np.int64))
    assert index(np.array([0, 0, 1, 1])) == pytest.approx(0.3)


def test_davies_bouldin_calls_one_shared_centroid_the_worst() -> None:
    points = np.array([[-1.0], [1.0], [-2.0], [2.0]])
    assert davies_bouldin(points, np.ones(4, np.int64))(np.array([0, 0, 1, 1])) == np.inf


def test_dbi_leaves_nearly_every_client_alone_on_wisdm_and_the_cap_does_not(wisdm: Points) -> None:
    for points in islice(wisdm.values(), 2):
        n = len(points)
        assert n - 2 <= cluster(points, "dbi", 0).max() + 1 <= n - 1
        capped = cluster(points, "dbi-capped", 0).max() + 1
        assert 2 <= capped <= int(np.sqrt(n))


@pytest.mark.parametrize("rule", RULES)
def test_the_order_of_clients_changes_nothing(rule: str, wisdm: Points) -> None:
    points, order = wisdm[1], np.random.default_rng(5).permutation(len(wisdm[1]))
    straight, permuted = cluster(points, rule, 7), cluster(points[order], rule, 7)
    assert (partition(permuted) == partition(straight)[np.ix_(order, order)]).all()


@given(
    st.lists(st.tuples(*[st.integers(-2, 2)] * 2), min_size=1, max_size=9),
    st.sampled_from(RULES),
    st.integers(0, 2**63 - 1),
    st.randoms(use_true_random=False),
)
def test_any_prototypes_give_canonical_labels_without_a_warning(
    values: list[tuple[int, int]], rule: str, seed: int, random: Random
) -> None:
    """Integers in a small box: many duplicates, many ties."""
    points = np.array(values, np.float32)
    order = np.array(random.sample(range(len(points)), len(points)))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        labels, permuted = cluster(points, rule, seed), cluster(points[order], rule, seed)
    assert labels.dtype == np.int64 and labels.shape == (len(points),)
    seen = list(dict.fromkeys(labels.tolist()))
    assert seen == list(range(len(seen)))
    assert (partition(permuted) == partition(labels)[np.ix_(order, order)]).all()
    same = (points[:, None] == points[None]).all(2)
    assert (partition(labels) >= same).all(), "equal prototypes were separated"
    distinct = len(np.unique(points, axis=0))
    assert len(seen) >= min(2, distinct) or rule == "fixed:1"
    if rule.startswith("fixed:"):
        assert len(seen) == min(int(rule[6:]), distinct)


@pytest.mark.parametrize(("rule", "scale"), turns(RULES, [1e-30, 1.0, 1e30]))
def test_scale_does_not_matter(rule: str, scale: float) -> None:
    points = blobs([3, 3, 3])
    assert (cluster(points * scale, rule, 1) == cluster(points, rule, 1)).all()


def test_prototypes_that_rounding_cannot_tell_apart_are_one() -> None:
    points = np.array([[1.0], [1.0 + 1e-12], [2.0], [3.0]])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert cluster(points, "fixed:4", 0).tolist() == [0, 0, 1, 2]


def test_equal_prototypes_count_as_often_as_they_occur() -> None:
    """Two means for 0, 5, 9: joining 5 and 9 costs 8, joining 0 and 5 costs 12.5.

    With a hundred fives and nines these are 800 and 24.8.
    """
    points = np.array([0.0] + [5.0] * 100 + [9.0] * 100)[:, None]
    assert cluster(points[[0, 1, 101]], "fixed:2", 0).tolist() == [0, 1, 1]
    assert cluster(points, "fixed:2", 0).tolist() == [0] * 101 + [1] * 100


def test_one_and_two_prototypes() -> None:
    for rule in RULES:
        assert cluster(np.ones((1, 3)), rule, 0).tolist() == [0]
        assert cluster(np.ones((2, 3)), rule, 0).tolist() == [0, 0]
        two = cluster(np.array([[0.0], [1.0]]), rule, 0).tolist()
        assert two == ([0, 0] if rule == "fixed:1" else [0, 1])


def test_the_cap_is_the_root_of_the_number_of_clients() -> None:
    points = np.random.default_rng(0).normal(size=(30, 3))
    assert cluster(points, "dbi", 0).max() + 1 > 20
    assert cluster(points, "dbi-capped", 0).max() + 1 <= 5
    assert cluster(points[:3], "dbi-capped", 0).max() + 1 == 2


def test_a_seed_repeats(wisdm: Points) -> None:
    assert (cluster(wisdm[0], "dbi", 2**62) == cluster(wisdm[0], "dbi", 2**62)).all()


def test_classes_in_parallel_equal_classes_alone(wisdm: Points) -> None:
    seeds = {y: 100 + y for y in wisdm}
    together = cluster_classes(wisdm, "dbi-capped", seeds, workers=3)
    assert list(together) == list(wisdm)
    for y, points in wisdm.items():
        assert (together[y] == cluster(points, "dbi-capped", seeds[y])).all()


def test_threads_are_given_back() -> None:
    classes = {y: blobs([4, 4], seed=y) for y in range(6)}
    with threadpool_limits(2):
        before = [p["num_threads"] for p in threadpool_info()]
        cluster_classes(classes, "dbi", dict.fromkeys(classes, 0), workers=4)
        assert [p["num_threads"] for p in threadpool_info()] == before


def test_no_classes_is_no_work() -> None:
    assert cluster_classes({}, "dbi", {}, workers=2) == {}


@pytest.mark.parametrize("rule", ["dbi", "dbi-capped", "silhouette"])
def test_a_few_k_are_tried_and_the_choice_is_that_of_all(
    wisdm: Points, rule: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = np.random.default_rng(0)
    towns = np.concatenate([stream.normal(at, 0.1, (9, 2)) for at in (0, 3, 6, 20)])
    for points in (min(wisdm.values(), key=len), towns):
        with monkeypatch.context() as patched:
            patched.setattr(clustering, "FITTED", {rule: 10**6})
            expected = cluster(points, rule, 1)
        assert np.array_equal(cluster(points, rule, 1), expected)


def test_of_very_many_prototypes_some_k_are_tried(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    stream = np.random.default_rng(0)
    towns = np.concatenate([stream.normal(at, 0.1, (100, 2)) for at in (0, 3, 20)])
    monkeypatch.setattr(clustering, "MOST", 200)
    labels = cluster(towns, "dbi-capped", 0)
    assert np.array_equal(labels, np.repeat([0, 1, 2], 100)) and not caplog.records
    few = stream.normal(size=(30, 1))
    monkeypatch.setattr(clustering, "MOST", 20)
    assert cluster(few, "dbi", 0).max() > 3
    assert "of 28 numbers of clusters only 12 are tried" in caplog.text
