"""Samples that are the same are never on both sides of a split."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedsub_client.split_client import split_client
from fedsub_core.config.settings import SplitSettings
from fedsub_core.data.card import Card
from fedsub_core.data.client_data import ClientData
from fedsub_core.data.copies import copies_within, first_copies
from fedsub_core.data.federation import Federation
from fedsub_core.data.findings import findings, repeats
from fedsub_core.data.grown_splits import split_grown
from fedsub_core.data.splits import SplitKind, split
from fedsub_core.errors import DataError

CARD = Card("toy", "test", ("a", "b", "c"), ("u",), time_ordered=True)
KINDS: tuple[SplitKind, ...] = ("stratified", "blocked")

#: Which of a few different samples each one is, and its label.
samples = st.lists(st.tuples(st.integers(0, 15), st.integers(0, 2)), min_size=4, max_size=60)


def client(which: object, y: object, name: str = "p") -> ClientData:
    x = np.asarray(which, np.float32)[:, None]
    return ClientData(name, x, np.asarray(y, np.int64))


def columns(drawn: list[tuple[int, int]]) -> tuple[list[int], list[int]]:
    return [which for which, _ in drawn], [label for _, label in drawn]


def test_the_first_that_is_the_same() -> None:
    x = np.array([[1, 2], [3, 4], [1, 2], [1, 2], [3, 5]], np.float32)
    found = first_copies(x)
    assert found is not None and found.tolist() == [0, 1, 0, 0, 4]
    assert first_copies(x[[0, 1, 4]]) is None


@given(samples, st.data())
def test_copies_within_a_part_follow_from_those_of_all(
    drawn: list[tuple[int, int]], data: st.DataObject
) -> None:
    whole = client(*columns(drawn))
    rows = np.array(data.draw(st.permutations(range(len(drawn)))), np.int64)
    rows = rows[: data.draw(st.integers(1, len(rows)))]
    expected = first_copies(whole.x[rows])
    found = copies_within(whole.first_copies, rows)
    np.testing.assert_equal(found, expected)
    np.testing.assert_equal(whole.part(rows).first_copies, expected)


@pytest.mark.parametrize("best_by", ["last", "validation"])
@pytest.mark.parametrize("kind", KINDS)
def test_an_outline_is_divided_as_the_client_is(kind: SplitKind, best_by: str) -> None:
    rng = np.random.default_rng(0)
    whole = client(rng.integers(0, 60, 120), rng.integers(0, 3, 120))
    outline = whole.outline()
    assert outline.x.shape == whole.x.shape and outline.x.dtype == whole.x.dtype
    assert not outline.x.any() and outline.x.strides == (0, 0)
    asked = SplitSettings(split=kind, best_by=best_by)
    one, two = split_client(whole, CARD, asked), split_client(outline, CARD, asked)
    assert one.note == two.note and (one.holds_back > 0) == (best_by == "validation")
    for part in ("train", "test", "validation"):
        np.testing.assert_equal(getattr(two, part), getattr(one, part))
    twin = client(whole.x[:, 0], whole.y, "q")
    assert outline.digest == twin.digest != client(whole.x[:, 0] + 1, whole.y).digest


@given(samples, st.floats(0.1, 0.9), st.sampled_from(KINDS), st.integers(0, 3))
def test_no_copy_of_a_tested_sample_is_trained_on(
    drawn: list[tuple[int, int]], share: float, kind: SplitKind, seed: int
) -> None:
    data = client(*columns(drawn))
    try:
        train, test = split(data, CARD, kind, share, seed)
    except DataError:
        return
    assert not set(data.x[train, 0]) & set(data.x[test, 0])
    assert not set(train) & set(test)


@given(samples, samples, st.sampled_from(KINDS), st.integers(0, 3))
def test_nor_where_the_file_grew(
    first: list[tuple[int, int]], more: list[tuple[int, int]], kind: SplitKind, seed: int
) -> None:
    data = client(*columns(first + more))
    try:
        before, tested = split(client(*columns(first)), CARD, kind, 0.3, seed)
        train, test = split_grown(data, CARD, kind, 0.3, seed, (len(first), len(data.y)))
    except DataError:
        return
    assert not set(data.x[train, 0]) & set(data.x[test, 0])
    assert set(before) <= set(train) and set(tested) <= set(test)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("twice", [np.repeat, np.tile])
def test_a_file_in_which_each_row_stands_twice_is_still_tested_in_its_share(
    kind: SplitKind, twice: object
) -> None:
    which = twice(np.arange(60), 2)  # type: ignore[operator]
    data = client(which, which % 3)
    train, test = split(data, CARD, kind, 0.3, 0)
    assert not set(which[train]) & set(which[test])
    assert 0.2 <= len(set(which[test])) / 60 <= 0.6 and len(set(which[train])) >= 24
    assert set(data.y[test]) == set(data.y[train]) == {0, 1, 2}


@pytest.mark.parametrize("kind", KINDS)
def test_a_person_all_of_whose_samples_are_the_same_cannot_be_split(kind: SplitKind) -> None:
    with pytest.raises(DataError, match="but all its samples are the same"):
        split(client([7] * 20, np.arange(20) % 2), CARD, kind, 0.3, 0)


def test_copies_and_twins_are_said() -> None:
    one = client([0, 1, 2, 0, 1, 3], [0, 1, 0, 0, 2, 1], "one")
    assert repeats(one) == 2
    others = {name: client(range(6), [0, 1] * 3, name) for name in ("two", "three")}
    said = findings(Federation(replace(CARD, window_s=1.0), {"one": one, **others}), "auto")
    assert said[0].startswith(
        "2 samples of 1 of 3 clients (one) repeat an earlier one exactly, 1 of them with another"
    )
    assert said[1].startswith("Clients three, two hold the same samples") and len(said) == 2
