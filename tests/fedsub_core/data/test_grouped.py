"""Splits by whole groups: none is on both sides, classes stay trained, one is split in time."""

import itertools
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedsub.testing.refusals import refused
from fedsub_client.split_client import split_client
from fedsub_core.config.settings import SplitSettings
from fedsub_core.data.card import Card, card_table, parse_card
from fedsub_core.data.client_data import ClientData
from fedsub_core.data.client_file import check_client, read_client
from fedsub_core.data.findings import sides_warning
from fedsub_core.data.grown_splits import split_grown
from fedsub_core.data.splits import split, split_kind
from fedsub_core.errors import DataError

CARD = Card(
    "walks", "activity", ("sit", "walk", "run"), ("a",), window_s=2.0, overlap=0.5, groups="day"
)


def person(y: list[int], group: list[int], t: np.ndarray | None = None) -> ClientData:
    """One second from window to window, an hour from group to group."""
    x = np.arange(len(y), dtype=np.float32)[:, None]
    when = np.arange(len(y)) + 3600.0 * np.array(group) if t is None else t
    return ClientData("anna", x, np.array(y), when, group=np.array(group))


@given(
    st.lists(st.tuples(st.integers(0, 2), st.integers(0, 5)), min_size=2, max_size=60),
    st.sampled_from([0.1, 0.3, 0.5, 0.8]),
)
def test_no_group_is_on_both_sides(rows: list[tuple[int, int]], share: float) -> None:
    y, group = (list(column) for column in zip(*sorted(rows, key=lambda r: r[1]), strict=True))
    if len(set(group)) < 2:
        return
    data = person(y, group)
    train, test = split(data, CARD, "grouped", share, 0)
    assert data.group is not None
    assert not set(data.group[train]) & set(data.group[test])
    assert len(train) + len(test) == len(y)  # groups are an hour apart: no gap eats a window


def test_the_latest_are_tested_up_to_the_share() -> None:
    data = person([0, 0, 1, 1] * 5, [0] * 4 + [1] * 4 + [2] * 4 + [3] * 4 + [4] * 4)
    train, test = split(data, CARD, "grouped", 0.4, 0)
    assert test.tolist() == list(range(12, 20))
    assert train.tolist() == list(range(12))


def test_recordings_of_one_class_leave_each_class_to_train_on() -> None:
    """sit, walk, run, sit, walk: the last sit and walk are tested; of run there is one alone."""
    data = person([0] * 4 + [1] * 4 + [2] * 4 + [0] * 4 + [1] * 4, sorted([0, 1, 2, 3, 4] * 4))
    parts = split_client(data, CARD, SplitSettings(test_share=0.5))
    assert data.group is not None
    assert set(data.group[parts.test]) == {3, 4}
    assert parts.note is not None
    assert parts.note.split == "by whole days; trained without a test: run"
    assert "anna (run)" in sides_warning({"anna": parts.note.split})


def test_two_groups_of_a_class_each_say_what_nobody_can_know() -> None:
    parts = split_client(person([0] * 6 + [1] * 3, [0] * 6 + [1] * 3), CARD, SplitSettings())
    assert parts.note is not None
    assert "tested without training: walk" in parts.note.split
    assert "trained without a test: sit" in parts.note.split


def test_windows_across_midnight_are_not_on_both_sides() -> None:
    data = person([0, 1] * 10, [0] * 10 + [1] * 10, np.arange(20.0))
    train, test = split(data, CARD, "grouped", 0.5, 0)
    assert test.tolist() == list(range(10, 20))
    assert train.tolist() == list(range(9))  # the tenth overlaps the first tested one


def test_one_group_is_split_in_time_and_said() -> None:
    data = person([0] * 20 + [1] * 20, [7] * 40)
    parts = split_client(data, CARD, SplitSettings())
    usual = split(data, CARD, "blocked", 0.3, 0)
    assert parts.train.tolist() == usual[0].tolist()
    assert parts.note is not None
    assert parts.note.split == "all of one day: in time by t, gap 2 s"


def test_who_asks_for_another_split_gets_it() -> None:
    data = person([0, 1] * 10, [0] * 10 + [1] * 10)
    kinds = [split_kind(wanted, data, CARD) for wanted in ("auto", "unseen", "blocked")]
    assert kinds == ["grouped", "grouped", "blocked"]


def test_a_file_that_grows_keeps_its_sides() -> None:
    """One day at first, split in time; the third day is tested, also what comes of it later."""
    group = [0] * 20 + [1] * 10 + [0] * 4 + [2] * 20 + [2] * 10
    y = [0, 1] * (len(group) // 2)
    sizes = [20, 30, 54, 64]
    looks = [
        split_grown(person(y[:n], group[:n]), CARD, "auto", 0.4, 0, sizes[: i + 1])
        for i, n in enumerate(sizes)
    ]
    for (train, test), (later, tested) in itertools.pairwise(looks):
        assert set(train) <= set(later)
        assert set(test) <= set(tested)
    train, test = looks[-1]
    assert set(range(31, 34)) <= set(train)  # of the day that is on both sides already
    assert set(range(20, 30)) <= set(train)
    assert set(range(34, 64)) <= set(test)


@pytest.mark.parametrize("group", [np.zeros(3), np.zeros(2, int), np.zeros((4, 1), int)])
def test_other_groups_are_refused(group: np.ndarray, tmp_path: Path) -> None:
    arrays = {"x": np.zeros((4, 1)), "y": np.zeros(4, int), "group": group}
    with pytest.raises(DataError, match="group"):
        check_client(tmp_path / "a.npz", "a", arrays, CARD)


def test_groups_come_back_from_the_file_and_the_card(tmp_path: Path) -> None:
    data = person([0, 1, 0], [4, 4, 9])
    np.savez(tmp_path / "anna.npz", **data.arrays())  # type: ignore[arg-type]
    read = read_client(tmp_path / "anna.npz", CARD)
    assert read.group is not None
    assert read.group.tolist() == [4, 4, 9]
    assert parse_card(card_table(CARD), tmp_path) == CARD
    with refused(DataError, "groups", got="week", expected="recording"):
        parse_card(card_table(CARD) | {"groups": "week"}, tmp_path)
