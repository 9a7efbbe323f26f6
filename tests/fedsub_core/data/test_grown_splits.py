"""A file that grows: no sample changes sides, and every class keeps its tested share."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedsub_core.data.card import Card
from fedsub_core.data.client_data import ClientData
from fedsub_core.data.grown_splits import split_grown
from fedsub_core.data.splits import SplitKind, split

CARD = Card("toy", "t", ("a", "b", "c"), ("u",), window_s=2.0, overlap=0.5, time_ordered=True)


def person(y: np.ndarray, with_time: bool = True) -> ClientData:
    n = len(y)
    t = np.arange(n, dtype=np.float64) if with_time else None
    return ClientData("p", np.arange(n, dtype=np.float32)[:, None], y, t)


def labels(n: int, seed: int = 0) -> np.ndarray:
    return np.sort(np.random.default_rng(seed).integers(0, 3, n))[np.argsort(np.arange(n) % 7)]


@pytest.mark.parametrize("kind", ["stratified", "blocked"])
def test_a_file_seen_once_is_split_as_ever(kind: SplitKind) -> None:
    one = person(labels(200))
    usual = split(one, CARD, kind, 0.3, 5)
    for mine, theirs in zip(split_grown(one, CARD, kind, 0.3, 5, [200]), usual, strict=True):
        assert np.array_equal(mine, theirs)


@given(
    sizes=st.lists(st.integers(40, 400), min_size=2, max_size=6, unique=True),
    kind=st.sampled_from(["stratified", "blocked"]),
    seed=st.integers(0, 99),
)
def test_no_sample_ever_changes_sides(sizes: list[int], kind: SplitKind, seed: int) -> None:
    sizes = sorted(sizes)
    whole = np.random.default_rng(seed).integers(0, 3, sizes[-1])
    whole[:40] = np.repeat([0, 1], 20)  # what a blocked split of the first part needs
    parts = [
        split_grown(person(whole[:n]), CARD, kind, 0.3, seed, sizes[: i + 1])
        for i, n in enumerate(sizes)
    ]
    for (train, test), (later_train, later_test) in pairwise(parts):
        assert set(train) <= set(later_train)
        assert set(test) <= set(later_test)
    train, test = parts[-1]
    assert not set(train) & set(test)
    if kind == "blocked":  # windows of 2 s that start every second: neighbours overlap
        assert np.abs(train[:, None] - test[None, :]).min() >= 2


def test_samples_that_trickle_in_one_by_one_are_tested_in_their_share() -> None:
    y = np.array([0, 1] * 60)
    sizes = [20, *range(21, 121)]
    train, test = split_grown(person(y), CARD, "stratified", 0.3, 0, sizes)
    assert len(train) + len(test) == 120
    assert np.bincount(y[test]).tolist() == [18, 18]


def test_a_class_that_arrives_later_is_trained_and_tested() -> None:
    y = np.repeat([0, 1, 2], [40, 40, 40])
    for kind in ("stratified", "blocked"):
        train, test = split_grown(person(y), CARD, kind, 0.3, 0, [80, 120])
        assert 2 in y[train] and np.count_nonzero(y[test] == 2) == 12
        assert test.max() >= 80 and set(y[test[test < 80]]) == {0, 1}


def test_new_blocked_tests_are_the_last_in_time_and_clear_of_what_was_trained() -> None:
    y = np.zeros(60, np.int64)
    y[:30:2] = 1
    train, test = split_grown(person(y), CARD, "blocked", 0.3, 0, [30, 60])
    old, _ = split(person(y[:30]), CARD, "blocked", 0.3, 0)
    assert set(old) <= set(train)
    fresh = test[test >= 30]
    assert len(fresh) and fresh.max() == 59
    assert np.array_equal(fresh, np.arange(fresh.min(), 60))


@pytest.mark.parametrize("sizes", [[40, 30, 60], [30, 30, 60], [30, 50]])
def test_sizes_that_cannot_be_are_refused(sizes: list[int]) -> None:
    with pytest.raises(ValueError, match="expected ascending up to 60"):
        split_grown(person(labels(60)), CARD, "stratified", 0.3, 0, sizes)


def test_overlaps_that_come_later_change_nothing_of_what_was_split() -> None:
    """By what came first ``auto`` draws at random; what comes then keeps clear of it."""
    card = Card("toy", "t", ("a", "b"), ("u",), window_s=2.0)
    y = np.arange(120) % 2
    t = np.concatenate([np.arange(80) * 2.0, 300 + np.arange(40)])  # the last overlap by half
    one = ClientData("p", np.arange(120, dtype=np.float32)[:, None], y, t)
    first = ClientData("p", one.x[:80], y[:80], t[:80])
    before = split_grown(first, card, "auto", 0.3, 0, [80])
    for old, drawn in zip(before, split(first, card, "stratified", 0.3, 0), strict=True):
        assert np.array_equal(old, drawn)
    train, test = split_grown(one, card, "auto", 0.3, 0, [80, 120])
    for old, now in zip(before, (train, test), strict=True):
        assert np.array_equal(old, now[now < 80])
    late = [part[part >= 80] for part in (train, test)]
    assert min(len(part) for part in late) > 5
    assert np.abs(t[late[0]][:, None] - t[late[1]][None, :]).min() >= 2
