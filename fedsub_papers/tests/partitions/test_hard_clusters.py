"""Groups of clients that share no class."""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from fedsub_core.data.federation import Card, ClientData, Federation, read_federation
from fedsub_core.data.splits import split
from fedsub_core.errors import ConfigError, DataError
from fedsub_data.partitions.partitions import counted_partition
from fedsub_data.partitions.pool import COPIES, pooled
from fedsub_data.preparing.preparation import Counts
from fedsub_papers.partitions.hard_clusters import (
    HardClustersOptions,
    _draw_shared,
    hard_clusters,
)


def people(sizes: Sequence[int]) -> Federation:
    card = Card("toy", "test", tuple("abcdefgh"[: len(sizes)]), ("number",))
    y = np.repeat(np.arange(len(sizes)), sizes)
    x = np.arange(len(y), dtype=np.float32)[:, None]
    halves = {"1": slice(0, None, 2), "2": slice(1, None, 2)}
    return Federation(card, {n: ClientData(n, x[part], y[part]) for n, part in halves.items()})


def table(clients: dict[str, ClientData], classes: int) -> NDArray[np.int64]:
    return np.array([np.bincount(data.y, minlength=classes) for data in clients.values()])


def test_the_report_is_the_default() -> None:
    counts = Counts()
    made = hard_clusters(people([20_000] * 6), HardClustersOptions(), 0, counts)
    held = table(made, 6)
    assert list(made) == [f"c{i:03d}" for i in range(30)]
    for group in range(3):
        own = held[10 * group : 10 * group + 10]
        assert own.sum() == own[:, 2 * group : 2 * group + 2].sum()
        assert (own.sum(axis=0) > 0).sum() == 2
    assert held.sum(axis=1).min() >= 50
    assert counts == {
        f"percent of the drawn sizes: group {i} ({names})": 100
        for i, names in ((1, "a, b"), (2, "c, d"), (3, "e, f"))
    }


def test_sizes_and_shares_have_the_distributions_they_should() -> None:
    options = HardClustersOptions(clients=4000, groups="0,1/2,3")
    held = table(hard_clusters(people([900_000] * 4), options, 1, Counts()), 4)
    logarithm = np.log(held.sum(axis=1) - 50 + 0.5)  # whole samples are rounded down
    np.testing.assert_allclose(logarithm.mean(), 4.5, atol=4 * 0.8 / math.sqrt(4000))
    np.testing.assert_allclose(logarithm.std(), 0.8, rtol=0.06)
    # The share of one of two classes is Beta(0.5, 0.5): mean 1/2, variance 1/8.
    share = held[:2000, 0] / held[:2000].sum(axis=1)
    np.testing.assert_allclose(share.mean(), 0.5, atol=0.04)
    np.testing.assert_allclose(share.var(), 0.125, rtol=0.1)


@given(
    st.lists(st.integers(0, 400), min_size=4, max_size=7),
    st.integers(2, 8),
    st.sampled_from([0.01, 0.5, 50.0]),
    st.integers(0, 99),
)
def test_nothing_is_drawn_twice_and_scaled_clients_keep_the_least(
    sizes: list[int], clients: int, alpha: float, seed: int
) -> None:
    options = HardClustersOptions(clients=clients, alpha=alpha, least=5)
    try:
        made = hard_clusters(people(sizes), options, seed, Counts())
    except (ConfigError, DataError) as error:
        assert "Set groups" in str(error) or "Choose fewer clients" in str(error)
        return
    every = [int(i) for data in made.values() for i in data.x[:, 0]]
    assert len(set(every)) == len(every)
    held = table(made, len(sizes))
    assert (held.sum(axis=0) <= sizes).all()
    assert held.sum(axis=1).min() >= 5


def test_a_short_class_scales_its_group_down_and_says_so() -> None:
    options, counts = HardClustersOptions(clients=20), Counts()
    plenty = table(hard_clusters(people([9000] * 4), options, 0, Counts()), 4)
    scaled = table(hard_clusters(people([9000, 9000, 9000, 400]), options, 0, counts), 4)
    np.testing.assert_array_equal(scaled[:10], plenty[:10])
    percent = counts["percent of the drawn sizes: group 2 (c, d)"]
    assert percent == 42
    assert abs(percent - 100 * 400 / plenty[10:, 3].sum()) < 1
    ratio = scaled[10:].sum(axis=1) / plenty[10:].sum(axis=1)
    np.testing.assert_allclose(ratio, percent / 100, atol=0.03)
    assert 390 <= scaled[:, 3].sum() <= 400


def test_too_short_a_class_is_refused() -> None:
    with pytest.raises(
        DataError,
        match=r"group 2 \(c, d\): 10 clients of only 10 .* want \d+ of a class that has 9",
    ):
        hard_clusters(people([900, 900, 900, 9]), HardClustersOptions(clients=20), 0, Counts())


def test_too_many_clients_are_refused_before_they_fill_the_memory() -> None:
    with pytest.raises(DataError, match=r"hard-clusters: 1000000000000 clients .* got 36 samples"):
        hard_clusters(people([9] * 4), HardClustersOptions(clients=10**12), 0, Counts())


def test_sizes_far_beyond_the_samples_are_scaled_all_the_same() -> None:
    options = HardClustersOptions(clients=4, groups="0/1", mu=20.0, sigma=0.0)
    held = table(hard_clusters(people([1000, 300]), options, 0, Counts()), 2)
    np.testing.assert_allclose(held.sum(axis=1), [500, 500, 150, 150], rtol=0.01)


def shared(sizes: Sequence[int], seed: int = 0, **options: Any) -> dict[str, ClientData]:
    chosen = HardClustersOptions(disjoint=False, **options)
    return hard_clusters(people(sizes), chosen, seed, Counts())


def test_shared_samples_are_the_reports_sizes_whatever_there_is() -> None:
    """With plenty, the sizes and shares are those of disjoint clients, drawn from the same seed."""
    plenty = [90_000] * 6
    held = table(shared(plenty), 6)
    alone = table(hard_clusters(people(plenty), HardClustersOptions(), 0, Counts()), 6)
    np.testing.assert_array_equal(held.sum(axis=1), alone.sum(axis=1))
    np.testing.assert_allclose(held, alone, atol=1)  # one of each class at least
    # The group's 220 + 80 samples bound a size; a class that is too small is made up for.
    few = table(shared([220, 80], clients=4, groups="0/1", base=500), 2)
    assert few.tolist() == [[220, 0], [220, 0], [0, 80], [0, 80]]


def test_a_class_too_small_for_its_share_is_made_up_for_by_the_others() -> None:
    sizes = [20, 1000, 30, 5000, 5000]
    made = shared(sizes, clients=8, groups="0,1,2/3,4", base=300, sigma=0.0)
    held = table(made, 5)
    assert (held.sum(axis=1) == 300 + math.floor(math.exp(4.5))).all()
    assert (held <= sizes).all() and (held[:4, 0] == 20).any()


@given(
    st.lists(st.integers(1, 400), min_size=4, max_size=7),
    st.integers(2, 8),
    st.sampled_from([0.01, 0.5, 50.0]),
    st.integers(0, 60),
    st.integers(0, 99),
)
def test_a_client_never_holds_a_sample_twice_and_has_all_its_classes(
    sizes: list[int], clients: int, alpha: float, base: int, seed: int
) -> None:
    counts = Counts()
    options = HardClustersOptions(clients=clients, alpha=alpha, base=base, disjoint=False)
    try:
        made = hard_clusters(people(sizes), options, seed, counts)
    except ConfigError as error:
        assert "Set groups" in str(error)
        return
    for data in made.values():
        assert len(np.unique(data.x)) == len(data.x)
    held = table(made, len(sizes))
    assert (held <= sizes).all()
    for row in held:
        group = np.flatnonzero(row)
        assert len(group) in (2, 3) and group[0] % 2 == 0
        assert base <= row.sum() or row.sum() == sum(np.array(sizes)[group])
    every, holders = np.unique(
        np.concatenate([d.x[:, 0] for d in made.values()]), return_counts=True
    )
    assert counts["samples that more than one client holds"] == (holders > 1).sum()
    assert counts["samples placed once more, with another client"] == holders.sum() - len(every)


def test_each_client_draws_what_it_wants_from_all_rows() -> None:
    pool, wanted = pooled(people([6, 6])), np.array([[6, 0], [6, 1], [2, 6]])
    hands = _draw_shared(pool, wanted, np.random.default_rng(0))
    held = [np.bincount(pool.y[rows], minlength=2).tolist() for rows in hands]
    assert held == wanted.tolist()
    assert all(len(set(rows.tolist())) == len(rows) for rows in hands)
    assert set(hands[0].tolist()) < set(hands[1].tolist())


def test_shared_samples_are_counted_once_among_those_left_out() -> None:
    options = HardClustersOptions(clients=4, groups="0/1", base=90, sigma=0.0, disjoint=False)
    made = counted_partition(people([300, 100]), "hard-clusters", options, 0)
    counts = made.counts
    assert counts["samples placed"] == 180 + 180 + 100 + 100
    assert counts["samples that more than one client holds"] >= 60 + 100
    every = np.unique(np.concatenate([d.x[:, 0] for d in made.federation.clients.values()]))
    assert counts["samples left out"] == 400 - len(every)


def test_more_clients_than_samples_are_refused() -> None:
    with pytest.raises(
        DataError, match=r"hard-clusters: 1000000000000 clients .* fewer clients\.$"
    ):
        shared([9] * 4, clients=10**12)


def groups_of(sizes: Sequence[int], **options: Any) -> list[tuple[int, ...]]:
    made = hard_clusters(people(sizes), HardClustersOptions(alpha=1e3, **options), 0, Counts())
    held = [tuple(np.flatnonzero(row).tolist()) for row in table(made, len(sizes))]
    return list(dict.fromkeys(held))


def test_groups_are_consecutive_pairs_or_as_told() -> None:
    assert groups_of([5000] * 4, clients=5) == [(0, 1), (2, 3)]
    assert groups_of([5000] * 5, clients=5) == [(0, 1), (2, 3, 4)]
    assert groups_of([5000, 0, 5000, 5000, 5000], clients=4) == [(0, 2), (3, 4)]
    assert groups_of([5000] * 4, clients=3, groups="3/0,2") == [(3,), (0, 2)]


@pytest.mark.parametrize(
    ("groups", "message"),
    [
        ("0,1/1,2", "got '0,1/1,2', expected every class in one group and once"),
        ("0,0/1", "expected every class in one group and once"),
        ("0,1/2,9", "expected classes that have samples: 0, 1, 2"),
        ("0,1/3", "expected classes that have samples: 0, 1, 2"),
        ("0,1,2", "expected 2 groups at least and no more than the 2 clients"),
        ("0/1/2", "expected 2 groups at least and no more than the 2 clients"),
        ("", "got '0,1,2', expected 2 groups at least"),
    ],
)
def test_groups_that_are_none(groups: str, message: str) -> None:
    options = HardClustersOptions(clients=2, groups=groups)
    with pytest.raises(ConfigError, match=f"hard-clusters: groups: .*{message}"):
        hard_clusters(people([50, 50, 50, 0]), options, 0, Counts())


def test_real_windows_are_too_few_for_the_report(real_data: Path) -> None:
    windows = read_federation(real_data / "wisdm-windows")
    counts = Counts()
    held = table(hard_clusters(windows, HardClustersOptions(), 0, counts), 6)
    assert (held.sum(axis=0) <= [2827, 2287, 810, 661, 391, 316]).all()
    assert list(counts.values()) == [100, 68, 48]
    assert held.sum(axis=1).min() == 31


def test_real_windows_suffice_where_clients_share_them(real_data: Path) -> None:
    """The report's federation: 30 clients of its sizes, each split as any."""
    windows = read_federation(real_data / "wisdm-windows")
    made = counted_partition(windows, "hard-clusters", HardClustersOptions(disjoint=False), 0)
    federation, counts = made.federation, made.counts
    held = table(federation.clients, 6)
    assert (held > 0).sum() == 60
    assert held.sum(axis=1).min() >= 50
    assert counts["samples placed"] == held.sum()
    assert counts["samples left out"] + held.sum() - counts[COPIES] == 7_292
    assert counts["samples that more than one client holds"] > 500
    for kind in ("stratified", "blocked"):
        for data in federation.clients.values():
            train, test = split(data, federation.card, kind, 0.2, 0)
            assert min(len(train), len(test)) > 0
            assert not set(train.tolist()) & set(test.tolist())
