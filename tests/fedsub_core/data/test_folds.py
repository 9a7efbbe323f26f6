"""Folds and given parts: each sample is tested once, nothing overlaps across a boundary."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedsub.testing.refusals import refused
from fedsub_client.split_client import split_client
from fedsub_core.config.run_config import read_config
from fedsub_core.config.settings import SplitSettings
from fedsub_core.data.client_data import ClientData
from fedsub_core.data.client_file import check_client
from fedsub_core.data.federation import Card
from fedsub_core.data.grown_splits import split_grown
from fedsub_core.data.held_out import few_of_each, unseen_clients
from fedsub_core.data.splits import SplitKind, split, split_kind
from fedsub_core.errors import ConfigError, DataError

CARD = Card("toy", "test", ("a", "b"), ("u",), window_s=2.0, overlap=0.5)


def client(n: int = 40, groups: int = 4, parts: object = None) -> ClientData:
    """Return windows of 2 s, one a second, of two classes by turns of five."""
    rows = np.arange(n)
    x, y = rows.astype(np.float32)[:, None], rows // 5 % 2
    given_parts = None if parts is None else np.asarray(parts, np.int64)
    group = rows * groups // n
    return ClientData("01", x, y, rows.astype(np.float64), group=group, parts=given_parts)


@given(of=st.integers(2, 6), n=st.integers(24, 70), seed=st.integers(0, 3))
@pytest.mark.parametrize("kind", ["stratified", "blocked", "grouped"])
def test_each_sample_is_tested_in_one_fold(kind: SplitKind, of: int, n: int, seed: int) -> None:
    data, card = client(n, groups=6), replace(CARD, overlap=0.0, window_s=0.5)
    folds = [split(data, card, kind, 0.3, seed, (k, of)) for k in range(1, of + 1)]
    tested = np.concatenate([test for _, test in folds])
    np.testing.assert_array_equal(np.sort(tested), np.arange(n))
    for train, test in folds:
        assert not np.intersect1d(train, test).size
        assert len(train) + len(test) == n


@pytest.mark.parametrize("kind", ["blocked", "grouped"])
@pytest.mark.parametrize("fold", [(1, 4), (2, 4), (4, 4)])
def test_no_training_window_overlaps_a_tested_one(kind: SplitKind, fold: tuple[int, int]) -> None:
    data = client()
    train, test = split(data, CARD, kind, 0.3, 0, fold)
    assert data.t is not None
    assert np.abs(data.t[train][:, None] - data.t[test]).min() >= 2
    assert len(train) + len(test) < 40


def test_a_group_is_in_one_part_and_there_are_as_many_as_folds() -> None:
    data = client()
    assert data.group is not None
    train, test = split(data, CARD, "grouped", 0.3, 0, (2, 4))
    assert set(data.group[test]) == {1} and set(data.group[train]) == {0, 2, 3}
    with refused(DataError, "01", "fold = 1/5", got=4):
        split(data, CARD, "grouped", 0.3, 0, (1, 5))
    for one in (replace(data, group=None), replace(data, group=np.zeros(40, np.int64))):
        with refused(DataError, "01", "grouped", "two recordings"):
            split_kind("grouped", one, CARD)


def test_parts_are_as_the_file_says_but_for_windows_that_overlap() -> None:
    parts = np.repeat([0, 2, 1, 3], 10)
    settings = SplitSettings("given", best_by="validation")
    made = split_client(client(parts=parts), CARD, settings)
    assert made.train.tolist() == list(range(9)) and made.test.tolist() == list(range(20, 30))
    assert made.validation is not None and made.validation.tolist() == list(range(10, 19))
    last = split_client(client(parts=parts), CARD, SplitSettings("given"))
    assert last.train.tolist() == list(range(9)) and last.validation is None
    without = split_client(client(parts=np.repeat([0, 1], 20)), CARD, settings)
    assert without.validation is not None and len(without.validation)
    assert not np.intersect1d(without.train, without.validation).size
    grown = split_grown(client(parts=parts), CARD, "given", 0.3, 0, [15, 40])
    assert grown[0].tolist() == list(range(9))


def test_parts_of_one_kind_and_none_are_refused() -> None:
    with refused(DataError, "01", "given", "its parts", "40 for training and 0"):
        split_client(client(parts=np.zeros(40)), CARD, SplitSettings("given"))
    with refused(DataError, "01", "split = given", "no parts"):
        split_client(client(), CARD, SplitSettings("given"))
    arrays = client().arrays()
    for wrong, what in ((np.full(40, 4), "parts, row 0"), (np.zeros(3, int), "parts")):
        with refused(DataError, "01", what):
            check_client(Path("01.npz"), "01", arrays | {"parts": wrong}, CARD)


def test_people_who_are_named_are_left_out_with_few_labels() -> None:
    assert unseen_clients("abc", 0.9, 0, named=("c", "a")) == ("a", "c")
    with refused(DataError, "unseen-people", "'d'"):
        unseen_clients("abc", 0.5, 0, named=("d",))
    with refused(DataError, "unseen-people", "all 3"):
        unseen_clients("abc", 0.5, 0, named=("a", "b", "c"))
    settings = SplitSettings("unseen", unseen_people="01, x", unseen_labels=2)
    few, whole = (split_client(client(), CARD, one) for one in (settings, SplitSettings("unseen")))
    np.testing.assert_array_equal(few.train, few_of_each(whole.train, client(), 2, 0))
    assert np.bincount(few.train_y).tolist() == [2, 2]
    other = split_client(replace(client(), client="02"), CARD, settings)
    assert len(other.train) == len(whole.train)


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        ({"fold": "3/2"}, "fold: got 3/2"),
        ({"fold": "1/1"}, "fold: got 1/1"),
        ({"fold": "0/3"}, "fold: got '0/3'"),
        ({"fold": "1/5", "split": "unseen"}, "unseen-people"),
        ({"fold": "1/5", "split": "given"}, "split = given"),
        ({"unseen-labels": 3, "split": "unseen"}, "unseen-labels: got 3"),
    ],
)
def test_a_fold_that_is_none_is_refused(keys: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError) as error:
        read_config(None, keys)
    assert said in str(error.value)
