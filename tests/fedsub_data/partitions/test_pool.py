"""Pooled people share one time axis, on which nobody overlaps anybody else."""

import tracemalloc
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedsub.testing.refusals import refused
from fedsub_core.data.federation import Card, ClientData, Federation
from fedsub_core.data.splits import split
from fedsub_core.errors import DataError
from fedsub_data.partitions.partitions import check_splittable
from fedsub_data.partitions.pool import OVERLAPPING, TORN, UNKNOWN, deal, draw, pooled
from fedsub_data.preparing.preparation import Counts

CARD = Card("toy", "test", ("a", "b"), ("person", "place"), window_s=4.0)


def person(name: str, y: list[int], t: list[float] | None = None) -> ClientData:
    """A person whose features are who it is and the sample's place in the file."""
    x = np.column_stack([np.full(len(y), int(name)), np.arange(len(y))]).astype(np.float32)
    return ClientData(name, x, np.array(y), None if t is None else np.array(t))


def together(card: Card, *people: ClientData) -> Federation:
    return Federation(card, {p.client: p for p in people})


def test_people_follow_one_another_with_a_window_between() -> None:
    late, early = [1e9 + 9, 1e9 + 1, 1e9 + 3], [-5.0, -4.0]
    pool = pooled(together(CARD, person("2", [0, 1, 1], late), person("1", [0, 0], early)))
    assert pool.t is not None
    # Person 1's last window is [1, 5), then 4 s of nothing.
    np.testing.assert_array_equal(pool.t, [0, 1, 9, 11, 17])
    np.testing.assert_array_equal(pool.x[:, 0], [1, 1, 2, 2, 2])
    np.testing.assert_array_equal(pool.x[:, 1], [0, 1, 1, 2, 0])
    np.testing.assert_array_equal(pool.y, [0, 0, 1, 1, 0])


def test_time_follows_from_the_order_only_where_that_is_known() -> None:
    people = person("1", [0, 0, 1]), person("2", [1, 0])
    ordered = replace(CARD, overlap=0.75, time_ordered=True)
    times = pooled(together(ordered, *people)).t
    assert times is not None and times.tolist() == pytest.approx([0, 1, 2, 10, 11])
    for card in (
        replace(ordered, overlap=0.0),
        replace(ordered, time_ordered=False),
        replace(ordered, window_s=None),
    ):
        assert pooled(together(card, *people)).t is None


@pytest.mark.parametrize(
    ("t", "card", "what", "torn"),
    [
        ([0.0, 2, 4, 8, 9], {"overlap": 0.5}, OVERLAPPING, [3, 2]),  # 4 to 8 only touch
        ([0.0, 2, 4, 8, 9], {"overlap": None}, OVERLAPPING, [3, 2]),
        ([0.0, 4, 8, 12, 16], {}, "", []),
        (None, {"overlap": 0.5}, OVERLAPPING, [4, 3]),
        (None, {"overlap": None}, UNKNOWN, [4, 3]),
        (None, {}, "", []),
    ],
    ids=["times", "times alone", "apart", "order", "unknown", "none"],
)
def test_neighbours_that_different_clients_get_are_counted(
    t: list[float] | None, card: dict[str, float | None], what: str, torn: list[int]
) -> None:
    """Of two people's ten windows; nobody gets the second one's."""
    of = [person(name, [0, 1, 0, 0, 0], t) for name in "12"]
    pool = pooled(together(replace(CARD, **card), *of))  # type: ignore[arg-type]
    counts = Counts()
    deal(pool, [np.array([0, 3, 4]), np.array([1]), np.array([2])], counts)
    assert counts == (dict(zip([what, TORN], torn, strict=True)) if what else {})
    again = Counts()
    deal(pool, [np.arange(5)], again)
    assert again.get(TORN, 0) == 0
    deal(pool, [np.arange(5), np.array([1])], again := Counts())
    assert again.get(TORN, 0) == 2 * bool(what)


def test_an_unknown_window_length_keeps_the_order() -> None:
    card = replace(CARD, window_s=None)
    pool = pooled(together(card, person("1", [0, 1], [7, 5]), person("2", [0], [0])))
    assert pool.t is not None
    assert (np.diff(pool.t) > 0).all()
    np.testing.assert_array_equal(pool.x[:, 1], [1, 0, 0])


def test_a_clock_that_only_some_have_is_refused() -> None:
    with refused(DataError, "'toy'", "client '2'", "t", "1 file"):
        pooled(together(CARD, person("1", [0], [3.0]), person("2", [0])))


def test_since_goes_along() -> None:
    first = replace(person("1", [0, 1], [4, 0]), since=np.array([7, 1]))
    assert pooled(together(CARD, person("1", [0]))).since is None
    pool = pooled(together(CARD, first, person("2", [0, 0], [0, 1])))
    assert pool.since is not None
    np.testing.assert_array_equal(pool.since, [1, 7, 0, 0])
    dealt = deal(pool, [np.array([3, 1]), np.array([0, 2])], Counts())
    assert dealt["c000"].since is not None
    np.testing.assert_array_equal(dealt["c000"].since, [7, 0])


def test_images_are_copied_once() -> None:
    card = Card("toy", "test", ("a", "b"), ("grey",), sample="image")
    y = np.arange(100) % 2
    people = [ClientData(f"{i}", np.full((100, 1, 64, 64), i, np.uint8), y) for i in range(2)]
    tracemalloc.start()
    pool = pooled(together(card, *people))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert pool.x.nbytes == 200 * 64 * 64
    assert peak < 1.1 * pool.x.nbytes


def test_names_sort_as_numbers_do() -> None:
    pool = pooled(together(CARD, person("1", [0] * 1001)))
    names = list(deal(pool, np.array_split(np.arange(1001), 1001), Counts()))
    assert (names[0], names[-1]) == ("c0000", "c1000")
    assert names == sorted(names)
    assert list(deal(pool, [np.arange(2)], Counts())) == ["c000"]


@given(st.lists(st.integers(0, 3), min_size=4, max_size=4), st.integers(0, 9))
def test_draw_gives_what_is_wanted_and_nothing_twice(cells: list[int], seed: int) -> None:
    pool = pooled(together(CARD, person("1", [0, 1] * 3), person("2", [1, 0] * 3)))
    wanted = np.array(cells).reshape(2, 2)
    hands = draw(pool, wanted, np.random.default_rng(seed))
    for rows, row in zip(hands, wanted, strict=True):
        np.testing.assert_array_equal(np.bincount(pool.y[rows], minlength=2), row)
    every = np.concatenate(hands)
    assert len(set(every.tolist())) == len(every) == wanted.sum()


@pytest.mark.parametrize(
    ("y", "since", "message"),
    [
        ([0, 1], None, r"half: client '1' has 2 samples and at most 1 different of a class"),
        ([0, 0], [2, 3], r"half: client '1' would have its first sample in round 2"),
    ],
)
def test_clients_that_cannot_be_used(y: list[int], since: list[int] | None, message: str) -> None:
    data = replace(person("1", y), since=None if since is None else np.array(since))
    with pytest.raises(DataError, match=message):
        check_splittable([data], "half")
    check_splittable([person("1", [0, 1, 0])], "half")


@given(
    st.lists(st.integers(4, 40), min_size=2, max_size=4),
    st.sampled_from([0.25, 0.5, 0.75, 0.9]),
    st.sampled_from(["t", "order", "windows"]),
    st.integers(0, 9),
)
def test_blocked_splits_of_a_pool_never_leak(
    lengths: list[int], overlap: float, known: str, seed: int
) -> None:
    """Whatever is known of time, no test window of a client overlaps one that it trains on."""
    window_s = None if known == "windows" else 4.0
    card = replace(CARD, window_s=window_s, overlap=overlap, time_ordered=known != "t")
    rng = np.random.default_rng(seed)
    people = []
    for i, n in enumerate(lengths):
        file = person(str(i), rng.integers(0, 2, n).tolist())
        if known == "t":  # A file in any order, that its clock puts right.
            shuffled, t = rng.permutation(n), np.arange(n, dtype=np.float64) * 4 * (1 - overlap)
            file = replace(file, x=file.x[shuffled], y=file.y[shuffled], t=1e6 * i + t[shuffled])
        people.append(file)
    pool = pooled(together(card, *people))
    for client in deal(pool, np.array_split(rng.permutation(len(pool.y)), 2), Counts()).values():
        try:
            train, test = split(client, card, "blocked", 0.3, 0)
        except DataError:
            continue
        who, place = client.x.T.astype(int)
        same = who[train][:, None] == who[test][None, :]
        windows_apart = np.abs(place[train][:, None] - place[test][None, :])
        assert not (same & (windows_apart * (1 - overlap) < 1 - 1e-9)).any()
