"""Dirichlet and pathological partitions, at their extremes and on real people."""

import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from fedsub.testing.refusals import refused
from fedsub_core.data.federation import Card, ClientData, Federation, read_federation
from fedsub_core.errors import DataError
from fedsub_data.partitions.label_skew import (
    DirichletOptions,
    PathologicalOptions,
    dirichlet,
    label_divergence,
    pathological,
)
from fedsub_data.partitions.partitions import counted_partition
from fedsub_data.preparing.preparation import Counts


def people(sizes: Sequence[int]) -> Federation:
    """Two people who share the samples of classes of these sizes; x is the sample's number."""
    card = Card("toy", "test", tuple("abcdefgh"[: max(2, len(sizes))]), ("number",))
    y = np.repeat(np.arange(len(sizes)), sizes)
    x = np.arange(len(y), dtype=np.float32)[:, None]
    halves = {"1": slice(0, None, 2), "2": slice(1, None, 2)}
    return Federation(card, {n: ClientData(n, x[part], y[part]) for n, part in halves.items()})


def table(clients: dict[str, ClientData], classes: int) -> NDArray[np.int64]:
    return np.array([np.bincount(data.y, minlength=classes) for data in clients.values()])


def numbers(clients: dict[str, ClientData]) -> list[int]:
    return sorted(int(i) for data in clients.values() for i in data.x[:, 0])


@given(
    st.lists(st.integers(0, 60), min_size=2, max_size=8).filter(lambda s: sum(s) >= 24),
    st.integers(1, 6),
    st.sampled_from([0.001, 0.01, 0.1, 0.5, 1.0, 100.0, 1e6]),
    st.integers(2, 4),
    st.integers(0, 99),
)
def test_dirichlet_places_every_sample_once_and_leaves_nobody_short(
    sizes: list[int], clients: int, alpha: float, least: int, seed: int
) -> None:
    made = dirichlet(people(sizes), DirichletOptions(clients, alpha, least), seed, Counts())
    assert numbers(made) == list(range(sum(sizes)))
    held = table(made, len(sizes))
    assert held.shape[0] == clients
    assert held.sum(axis=1).min() >= least


def test_dirichlet_ends_where_hardly_any_draw_serves_everybody() -> None:
    # Redrawing until 50 clients have 10 samples each would take longer than anybody waits.
    counts, start = Counts(), time.monotonic()
    sizes = [100_000, 500, 20, 3, 1]
    made = dirichlet(people(sizes), DirichletOptions(50, 0.01, 10), 0, counts)
    assert time.monotonic() - start < 5
    assert min(len(data.y) for data in made.values()) == 10
    assert numbers(made) == list(range(sum(sizes)))
    assert 0 < counts["samples moved to clients that had too few"] <= 50 * 10


def test_dirichlet_with_nothing_to_spare() -> None:
    made = dirichlet(people([7, 5]), DirichletOptions(4, 0.01, 3), 0, Counts())
    assert [len(data.y) for data in made.values()] == [3, 3, 3, 3]
    with refused(DataError, "4 clients", "4 samples", 16, got=12):
        dirichlet(people([7, 5]), DirichletOptions(4, 0.5, 4), 0, Counts())


def test_dirichlet_shares_have_the_variance_of_the_distribution() -> None:
    # Var of one of K shares of Dir(alpha): (1/K) (1 - 1/K) / (K alpha + 1).
    federation, alpha, k = people([4000] * 8), 0.5, 10
    shares = np.concatenate(
        [
            table(dirichlet(federation, DirichletOptions(k, alpha, 2), seed, Counts()), 8) / 4000
            for seed in range(40)
        ]
    )
    np.testing.assert_allclose(shares.mean(), 1 / k)
    np.testing.assert_allclose(shares.var(), 0.1 * 0.9 / (k * alpha + 1), rtol=0.1)


@given(
    st.lists(st.integers(2, 50), min_size=2, max_size=8),
    st.integers(1, 12),
    st.integers(1, 8),
    st.integers(0, 99),
)
def test_pathological_gives_each_client_k_classes_and_every_sample_a_client(
    sizes: list[int], clients: int, k: int, seed: int
) -> None:
    shards = sum(min(size // 2, clients) for size in sizes)
    options = PathologicalOptions(clients, k)
    if k > len(sizes) or not len(sizes) <= clients * k <= shards:
        with pytest.raises(DataError, match="pathological: "):
            pathological(people(sizes), options, seed, Counts())
        return
    made = pathological(people(sizes), options, seed, Counts())
    assert numbers(made) == list(range(sum(sizes)))
    held = table(made, len(sizes))
    np.testing.assert_array_equal((held > 0).sum(axis=1), k)
    assert held[held > 0].min() >= 2
    for column in held.T:  # Shards of a class are of one size.
        assert np.ptp(column[column > 0]) <= 1


def test_pathological_takes_extreme_imbalance() -> None:
    made = pathological(people([10_000, 1, 1, 40]), PathologicalOptions(20, 2), 3, Counts())
    held = table(made, 4)
    np.testing.assert_array_equal((held > 0).sum(axis=1), 2)
    np.testing.assert_array_equal((held > 0).sum(axis=0), [20, 1, 1, 18])
    np.testing.assert_array_equal(np.unique(held[:, 0]), [500])


@pytest.mark.parametrize(
    ("sizes", "clients", "k", "message"),
    [
        ([9, 9], 3, 3, "3 classes for each client; got 2 classes with samples"),
        ([9, 9, 9], 2, 1, "2 clients with 1 classes each hold 2 at most; got 3 classes"),
        ([9, 5], 6, 2, "6 clients with 2 classes each need 12 shards; got samples for 6 shards"),
    ],
)
def test_pathological_refuses_what_cannot_be(
    sizes: list[int], clients: int, k: int, message: str
) -> None:
    with pytest.raises(DataError, match=f"pathological: {message}.*Change clients or"):
        pathological(people(sizes), PathologicalOptions(clients, k), 0, Counts())


def test_a_client_of_a_single_sample_is_refused() -> None:
    with refused(DataError, "pathological", "1 samples"):
        counted_partition(people([9, 1]), "pathological", PathologicalOptions(4, 1), 0)


def test_pathological_lets_all_pairs_of_classes_meet_alike() -> None:
    federation, pairs = people([60] * 6), np.zeros((6, 6))
    for seed in range(60):
        held = table(pathological(federation, PathologicalOptions(18, 2), seed, Counts()), 6) > 0
        pairs += held.T.astype(int) @ held
    met = pairs[np.triu_indices(6, 1)]
    assert met.sum() == 60 * 18
    # 72 times each on average; a binomial's deviation is 8.
    assert met.min() > 72 - 4 * 8
    assert met.max() < 72 + 4 * 8


def test_label_divergence_numbers() -> None:
    def of(*labels: list[int]) -> float:
        card = Card("toy", "test", ("a", "b", "c"), ("u",))
        made = {
            str(i): ClientData(str(i), np.zeros((len(y), 1), np.float32), np.array(y))
            for i, y in enumerate(labels)
        }
        return label_divergence(Federation(card, made))

    assert of([0, 1], [1, 0, 0, 1]) == 0
    np.testing.assert_allclose(of([0, 0], [1], [1]), np.log(2))
    np.testing.assert_allclose(
        of([0, 0], [0, 1]), (np.log(4 / 3) + 0.5 * np.log(2 / 3) + 0.5 * np.log(2)) / 2
    )


def test_real_people_more_skewed_with_a_smaller_alpha(real_data: Path) -> None:
    wisdm = read_federation(real_data / "wisdm")
    skew = []
    for alpha in (0.1, 0.5, 10.0):
        seeds = [
            label_divergence(
                counted_partition(wisdm, "dirichlet", DirichletOptions(30, alpha), seed).federation
            )
            for seed in range(3)
        ]
        skew.append(float(np.mean(seeds)))
    # The natural federation has 0.16; single classes each would have 1.5.
    assert 1.0 < skew[0] < 1.5
    assert 0.45 < skew[1] < 0.75
    assert 0.02 < skew[2] < 0.06


def test_a_real_pathological_partition_cuts_nearly_equal_shards(real_data: Path) -> None:
    wisdm = read_federation(real_data / "wisdm")
    made = counted_partition(wisdm, "pathological", PathologicalOptions(), 0)
    held = table(made.federation.clients, 6)
    np.testing.assert_array_equal((held > 0).sum(axis=0), [23, 19, 7, 5, 3, 3])
    assert (held[held > 0].min(), held[held > 0].max()) == (632, 794)
    assert made.counts["shards"] == 60
    assert made.counts["samples placed"] == 43_752
