"""Splits: disjoint, nothing lost but the gap, nothing shared in time, no client without a part."""

import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedsub.testing.refusals import refused
from fedsub_core.data.federation import Card, ClientData, Federation, read_federation
from fedsub_core.data.held_out import check_trainable, unseen_clients
from fedsub_core.data.splits import split
from fedsub_core.data.windows import together
from fedsub_core.errors import DataError

CARD = Card("toy", "test", ("a", "b", "c"), ("u",), time_ordered=True)


def client(y: object, t: object = None, name: str = "01") -> ClientData:
    labels = np.asarray(y, np.int64)
    seconds = None if t is None else np.asarray(t, np.float64)
    return ClientData(name, np.arange(len(labels), dtype=np.float32)[:, None], labels, seconds)


def real(name: str) -> Federation:
    default = Path(__file__).resolve().parents[3].parent / "shared" / "data"
    path = Path(os.environ.get("FEDSUB_DATA", default)) / name
    if not path.is_dir():
        pytest.skip(f"no real data at {path}; set FEDSUB_DATA to the folder that holds {name}")
    return read_federation(path)


labels = st.lists(st.integers(0, 2), min_size=2, max_size=60).filter(
    lambda y: max(y.count(c) for c in y) >= 2
)
shares = st.floats(0.01, 0.99)


@given(labels, shares, st.integers(0, 9))
def test_stratified_covers_all_and_takes_the_share_of_each_class(
    y: list[int], share: float, seed: int
) -> None:
    data = client(y)
    train, test = split(data, CARD, "stratified", share, seed)
    np.testing.assert_array_equal(np.sort(np.concatenate([train, test])), np.arange(len(y)))
    for label in set(y):
        n, tested = y.count(label), int((data.y[test] == label).sum())
        if n == 1:
            assert tested == 0
        else:
            assert 1 <= tested <= n - 1
            assert abs(tested - n * share) <= 1


def test_stratified_is_random_by_seed_and_client_and_repeats() -> None:
    y = np.arange(300) % 3
    first = split(client(y), CARD, "stratified", 0.3, 0)
    again = split(client(y), CARD, "stratified", 0.3, 0)
    np.testing.assert_array_equal(first[1], again[1])
    assert len(first[1]) == 90
    for other in (
        split(client(y), CARD, "stratified", 0.3, 1),
        split(client(y, name="02"), CARD, "stratified", 0.3, 0),
    ):
        assert not np.array_equal(first[1], other[1])


@given(labels, shares, st.floats(0.5, 20.0), st.data())
def test_blocked_in_seconds_never_overlaps_and_drops_only_the_gap(
    y: list[int], share: float, window_s: float, data: st.DataObject
) -> None:
    t = data.draw(st.lists(st.floats(0, 200), min_size=len(y), max_size=len(y)))
    person = client(y, t)
    try:
        train, test = split(person, replace(CARD, window_s=window_s), "blocked", share, 0)
    except DataError:
        return
    assert person.t is not None
    distance = np.abs(person.t[:, None] - person.t[test][None, :]).min(axis=1)
    overlaps = distance < window_s * (1 - 1e-6)
    tested = np.isin(np.arange(len(y)), test)
    assert not overlaps[train].any()
    # What is in neither part overlaps a test window: nothing else is lost.
    np.testing.assert_array_equal(np.flatnonzero(~tested & ~overlaps), train)
    for label in set(person.y[test].tolist()):
        latest_untested = person.t[(person.y == label) & ~tested].max()
        assert person.t[(person.y == label) & tested].min() >= latest_untested


@given(labels, shares, st.sampled_from([0.0, 0.25, 0.5, 0.75, 0.9]), st.booleans())
def test_blocked_in_windows_keeps_the_gap(
    y: list[int], share: float, overlap: float, ordered: bool
) -> None:
    person = client(y)
    card = replace(CARD, overlap=overlap, time_ordered=ordered)
    try:
        train, test = split(person, card, "blocked", share, 0)
    except DataError:
        return
    gap = {0.0: 0, 0.25: 1, 0.5: 1, 0.75: 3, 0.9: 9}[overlap]
    assert not set(train) & set(test)
    if ordered:
        assert np.abs(train[:, None] - test[None, :]).min() > gap
    for label in set(person.y[test].tolist()):
        rows = np.flatnonzero(person.y == label)
        place = {row: i for i, row in enumerate(rows)}
        trained = [place[i] for i in train if i in place]
        tested = [place[i] for i in test if i in place]
        assert tested == list(range(len(rows) - len(tested), len(rows)))
        if not ordered:
            assert trained == list(range(len(rows) - len(tested) - gap))


def test_blocked_numbers() -> None:
    y = [0] * 10 + [1] * 10
    train, test = split(client(y), CARD, "blocked", 0.3, 0)
    assert test.tolist() == [7, 8, 9, 17, 18, 19]
    assert train.tolist() == [*range(7), *range(10, 17)]
    half = replace(CARD, overlap=0.5)
    # Window 6 reaches into 7, and window 10 of the other class repeats the end of 9.
    assert split(client(y), half, "blocked", 0.3, 0)[0].tolist() == [*range(6), *range(11, 16)]
    unordered = replace(half, time_ordered=False)
    assert split(client(y), unordered, "blocked", 0.3, 0)[0].tolist() == [*range(6), *range(10, 16)]


def test_blocked_follows_t_and_not_the_file() -> None:
    t = np.array([9.0, 0, 1, 2, 3, 4, 5, 6, 7, 8])
    train, test = split(client([0] * 10, t), CARD, "blocked", 0.3, 0)
    assert test.tolist() == [0, 8, 9]
    assert train.tolist() == list(range(1, 8))
    overlapping = replace(CARD, window_s=2.5)
    assert split(client([0] * 10, t), overlapping, "blocked", 0.3, 0)[0].tolist() == [1, 2, 3, 4, 5]


def test_blocked_drops_training_windows_of_another_class_that_a_test_window_touches() -> None:
    # Class 1 starts while the last window of class 0 still runs.
    y, t = [0] * 5 + [1] * 5, [0, 10, 20, 30, 40, 45, 60, 70, 80, 90]
    train, test = split(client(y, t), replace(CARD, window_s=10), "blocked", 0.2, 0)
    assert test.tolist() == [4, 9]
    assert train.tolist() == [0, 1, 2, 3, 6, 7, 8]


def test_windows_that_only_touch_do_not_overlap() -> None:
    t = np.arange(100) * 0.1  # not exact in floating point
    train, _ = split(client([0] * 100, t), replace(CARD, window_s=0.1), "blocked", 0.3, 0)
    assert len(train) == 70


def test_a_class_too_short_for_the_gap_is_trained_only() -> None:
    y = [0] * 20 + [1] * 3
    card = replace(CARD, overlap=0.9, time_ordered=False)
    train, test = split(client(y), card, "blocked", 0.3, 0)
    assert test.tolist() == list(range(14, 20))
    assert train.tolist() == [0, 1, 2, 3, 4, 20, 21, 22]


@pytest.mark.parametrize("kind", ["stratified", "blocked"])
@pytest.mark.parametrize("y", [[0], [0, 1], [0, 1, 2]])
def test_a_client_without_a_part_is_refused(kind: str, y: list[int]) -> None:
    with refused(DataError, "client 'x7'", kind, "0 for testing"):
        split(client(y, name="x7"), CARD, kind, 0.3, 0)  # type: ignore[arg-type]


def test_a_client_of_one_class_is_split() -> None:
    for kind in ("stratified", "blocked"):
        train, test = split(client([2, 2]), CARD, kind, 0.3, 0)
        assert (len(train), len(test)) == (1, 1)


def test_an_unknown_split_is_refused() -> None:
    with pytest.raises(ValueError, match="'unseen'"):
        split(client([0, 0]), CARD, "unseen", 0.3, 0)  # type: ignore[arg-type]


@given(st.sets(st.text("abc019", min_size=1, max_size=4), min_size=2), shares, st.integers(0, 9))
def test_unseen_clients(ids: set[str], share: float, seed: int) -> None:
    held = unseen_clients(sorted(ids), share, seed)
    assert held == unseen_clients(sorted(ids, reverse=True), share, seed)
    assert list(held) == sorted(set(held) & ids)
    assert 1 <= len(held) < len(ids)
    assert abs(len(held) - share * len(ids)) <= 1


def test_unseen_clients_differ_by_seed_and_need_two() -> None:
    ids = [f"{i:02d}" for i in range(36)]
    assert len(unseen_clients(ids, 0.2, 0)) == 7
    assert unseen_clients(ids, 0.2, 0) != unseen_clients(ids, 0.2, 1)
    with pytest.raises(DataError, match="two at least"):
        unseen_clients(["01"], 0.2, 0)


SIZES = {f"{i:02d}": 1.0 if i < 10 else 0.5 if i < 20 else 0.125 for i in range(26)}


def test_of_each_capacity_a_share_is_held_out() -> None:
    """A fifth of ten, of ten and of six."""
    held = unseen_clients(SIZES, 0.2, 3, "capacity", SIZES)
    counts = [sum(SIZES[c] == size for c in held) for size in (1.0, 0.5, 0.125)]
    assert counts == [2, 2, 1] and list(held) == sorted(held)
    assert held == unseen_clients(reversed(SIZES), 0.2, 3, "capacity", SIZES)
    assert held != unseen_clients(SIZES, 0.2, 4, "capacity", SIZES)
    alone = {**SIZES, "26": 0.25}
    assert unseen_clients(alone, 0.2, 3, "capacity", alone) == held, "of one alone none"


def test_all_of_the_smallest_capacity_are_held_out() -> None:
    smallest = tuple(client for client, size in SIZES.items() if size == 0.125)
    assert unseen_clients(SIZES, 0.9, 3, "smallest", SIZES) == smallest
    assert unseen_clients(["a", "b"], 0.2, 0, "smallest", {"b": 0.5}) == ("b",), "a holds all"


@pytest.mark.parametrize(
    ("by", "sizes", "got"),
    [
        ("smallest", {"a": 0.5, "b": 0.5}, "2 clients of capacity 0.5, expected two capacities"),
        ("capacity", {"a": 0.5, "b": 1.0}, "2 capacities of 2 clients, expected one that two have"),
    ],
)
def test_capacities_by_which_nobody_can_be_held_out(
    by: str, sizes: dict[str, float], got: str
) -> None:
    with pytest.raises(DataError, match=got):
        unseen_clients(sizes, 0.2, 0, by, sizes)


def test_only_a_federation_of_one_class_is_untrainable() -> None:
    one, two = client([1, 1]), client([2, 2], name="02")
    check_trainable(Federation(CARD, {"01": one, "02": two}))
    with refused(DataError, "'toy'", "2 clients", "1 class", "'b'"):
        check_trainable(Federation(CARD, {"01": one, "02": one}))


@pytest.mark.parametrize(
    ("name", "kind", "train", "test"),
    [
        ("wisdm", "stratified", 30_627, 13_125),
        ("wisdm", "blocked", 30_627, 13_125),
        ("wesad", "stratified", 6_291, 2_700),
        # 60 s windows every 5 s: a gap of 11 windows for each of 15 people and 4 classes.
        ("wesad", "blocked", 6_291 - 11 * 15 * 4, 2_700),
    ],
)
def test_real_federations(name: str, kind: str, train: int, test: int) -> None:
    federation = real(name)
    check_trainable(federation)
    parts = [
        split(c, federation.card, kind, 0.3, 0)  # type: ignore[arg-type]
        for c in federation.clients.values()
    ]
    assert (sum(len(p[0]) for p in parts), sum(len(p[1]) for p in parts)) == (train, test)


def test_wesad_leaks_when_stratified_and_not_when_blocked() -> None:
    wesad = real("wesad")
    for person in wesad.clients.values():
        assert person.t is not None
        for kind, leaks in (("stratified", True), ("blocked", False)):
            train, test = split(person, wesad.card, kind, 0.3, 0)  # type: ignore[arg-type]
            gap = np.abs(person.t[train][:, None] - person.t[test][None, :]).min()
            assert (gap < 60.0) == leaks
            assert set(person.y[test]) == set(person.y[train]) == {0, 1, 2, 3}


def test_windows_that_hold_much_the_same() -> None:
    """Of 60 s every 5 s a window's length holds twelve."""
    wesad = real("wesad")
    assert {together(person, wesad.card) for person in wesad.clients.values()} == {12}
    half = replace(CARD, overlap=0.5)
    assert together(client([0] * 9), half) == 2 and together(client([0] * 9), CARD) == 1
    apart = replace(CARD, window_s=2.0)
    assert together(client([0] * 9, t=range(0, 18, 2)), apart) == 1
    assert together(client([0] * 9, t=[0] * 9), apart) == 9  # all of one moment
    both = np.repeat(np.arange(0, 18, 2), 2)  # two devices that record at once
    assert together(client([0] * 18, t=both), apart) == 2
    assert together(client([0] * 36, t=np.repeat(np.arange(18), 2)), apart) == 4


def test_times_in_milliseconds_do_not_switch_the_gap_off() -> None:
    half = replace(CARD, window_s=2.0, overlap=0.5)
    y, order = [0, 1] * 20, np.random.default_rng(0).permutation(40)
    mine, usual = (
        split(client(np.array(y)[order], t=order * unit), half, "blocked", 0.3, 0)
        for unit in (1000.0, 1.0)
    )
    for ms, seconds in zip(mine, usual, strict=True):
        np.testing.assert_array_equal(ms, seconds)
    train, test = mine
    assert np.abs(order[train][:, None] - order[test][None, :]).min() >= 2


@pytest.mark.parametrize(
    ("t", "why"),
    [
        (np.full(60, 7.0), "but all its t are 7, as if all windows were one"),
        (np.arange(60) / 100, "but by t it lasts 0.59 s and a window 2 s"),
    ],
)
def test_times_that_leave_nothing_to_test_are_the_reason(t: object, why: str) -> None:
    card = replace(CARD, window_s=2.0)
    with pytest.raises(DataError, match=f"60 for training and 0 for testing; .*{why}. Leave"):
        split(client([0, 1] * 30, t), card, "blocked", 0.3, 0)
