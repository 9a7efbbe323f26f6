"""Placements against what NumPy's own indexing says, on arrays and on tensors, stacked or not."""

from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes

from fedsub.testing.refusals import refused
from fedsub_core.placement import EVERYWHERE, Placement

SHAPES = array_shapes(min_dims=2, max_dims=4, min_side=1, max_side=5)


@dataclass(frozen=True)
class Placed:
    """A placement, the shape of a tensor that it is of, and the index that NumPy would take."""

    at: Placement
    shape: tuple[int, ...]
    index: tuple[Any, ...]

    @property
    def tensor(self) -> np.ndarray:
        return np.arange(prod(self.shape), dtype=np.float32).reshape(self.shape)


@st.composite
def placed(draw: st.DrawFn) -> Placed:
    """Draw any placement in a tensor of two to four axes."""
    shape = draw(SHAPES)

    def mask(*sizes: int) -> np.ndarray:
        bits = draw(st.lists(st.booleans(), min_size=prod(sizes), max_size=prod(sizes)))
        return np.array(bits, np.bool_).reshape(sizes)

    form = draw(st.sampled_from(["everywhere", "rows", "columns", "both", "elements"]))
    if form == "everywhere":
        return Placed(EVERYWHERE, shape, ())
    if form == "elements":
        found = mask(*shape)
        return Placed(Placement(elements=found), shape, (found,))
    rows = mask(shape[0]) if form != "columns" else np.ones(shape[0], np.bool_)
    columns = mask(shape[1]) if form != "rows" else np.ones(shape[1], np.bool_)
    at = Placement(
        rows=None if form == "columns" else rows.nonzero()[0],
        columns=None if form == "rows" else columns.nonzero()[0],
    )
    return Placed(at, shape, np.ix_(rows, columns))


@given(placed())
def test_it_takes_what_numpy_takes(one: Placed) -> None:
    expected = one.tensor[one.index]
    found = one.at.take(one.tensor)
    assert found.shape == expected.shape == one.at.shape(one.shape)
    assert np.array_equal(found, expected)
    assert one.at.count(one.shape) == found.size == one.at.held(one.shape).sum()
    # In the order of a mask's numbers, too: row-major.
    assert np.array_equal(found.reshape(-1), one.tensor[one.at.held(one.shape)])


@given(placed())
def test_putting_back_what_was_taken_changes_nothing_else(one: Placed) -> None:
    taken, whole = one.at.take(one.tensor), np.full(one.shape, -1, np.float32)
    assert one.at.put(whole, taken) is whole
    assert np.array_equal(whole, np.where(one.at.held(one.shape), one.tensor, -1))
    assert np.array_equal(one.at.take(whole), taken)
    assert np.array_equal(one.at.spread(taken, one.shape), np.where(whole < 0, 0, whole))


@given(placed(), st.integers(1, 3))
def test_a_stack_of_tensors_is_placed_one_by_one(one: Placed, clients: int) -> None:
    stack = torch.from_numpy(np.stack([one.tensor + i for i in range(clients)]))
    taken = one.at.take(stack, stacked=1)
    assert torch.equal(taken, torch.stack([one.at.take(tensor) for tensor in stack]))
    whole = one.at.put(torch.full_like(stack, -1), taken, stacked=1)
    held = torch.from_numpy(one.at.held(one.shape))
    assert torch.equal(whole, torch.where(held, stack, -1))


def test_the_whole_tensor_is_not_copied() -> None:
    array, tensor = np.zeros((2, 3), np.float32), torch.zeros(2, 3)
    assert EVERYWHERE.take(array) is array and EVERYWHERE.take(tensor, stacked=1) is tensor
    assert EVERYWHERE.spread(array, (2, 3)) is array
    assert EVERYWHERE.everywhere and not Placement(rows=np.arange(2)).everywhere


@given(placed(), placed())
def test_two_are_equal_that_say_the_same(one: Placed, other: Placed) -> None:
    again = Placement(
        **{name: None if array is None else array.copy() for name, array in vars(one.at).items()}
    )
    assert one.at == again and hash(one.at) == hash(again)
    if one.shape == other.shape and (one.at.held(one.shape) != other.at.held(one.shape)).any():
        assert one.at != other.at
    assert one.at != "all of it"


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ({"rows": np.array([2, 1])}, r"rows: got \[2, 1\], expected ascending ones from 0 on"),
        ({"rows": np.array([1, 1])}, "rows: .* expected ascending"),
        ({"columns": np.array([-1, 1])}, r"columns: got \[-1, 1\], expected ascending"),
        ({"rows": np.array([True, False])}, r"rows: got bool \[2\], expected int64 \[n\]"),
        ({"columns": np.array([[1]])}, r"columns: got int64 \[1, 1\], expected int64 \[n\]"),
        ({"elements": np.array([0, 1])}, "elements: got int64, expected bool"),
        (
            {"elements": np.array([True]), "rows": np.array([0])},
            "elements: got rows or columns beside them",
        ),
    ],
)
def test_what_is_no_placement_is_refused(said: dict[str, np.ndarray], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        Placement(**said)


@pytest.mark.parametrize(
    ("at", "words"),
    [
        (Placement(rows=np.array([0, 2])), r"axis 0 of a tensor \[2, 3\]: got index 2, .* below 2"),
        (Placement(columns=np.array([3])), r"axis 1 of a tensor \[2, 3\]: got index 3, .* below 3"),
        (
            Placement(elements=np.ones(2, np.bool_)),
            r"elements: got \[2\] for a tensor \[2, 3\], expected its shape",
        ),
    ],
)
def test_a_tensor_without_the_place_is_refused(at: Placement, words: str) -> None:
    whole = torch.zeros(2, 3)
    for asked in (
        lambda: at.take(whole),
        lambda: at.put(whole, 1.0),
        lambda: at.held((2, 3)),
        lambda: at.count((2, 3)),
        lambda: at.take(whole.unsqueeze(0), stacked=1),
    ):
        with pytest.raises(ValueError, match=words):
            asked()
    assert not whole.any()


def test_a_bias_has_no_columns() -> None:
    with refused(ValueError, "axis 1", "[4]", got="index 0"):
        Placement(columns=np.array([0])).take(torch.zeros(4))


def test_leading_entries_stand_in_the_first_corner() -> None:
    whole = np.arange(60, dtype=np.float32).reshape(4, 5, 3)
    found = Placement.leading((2, 3, 3), whole.shape).take(whole)
    np.testing.assert_array_equal(found, whole[:2, :3])
    assert Placement.leading((4, 3), (4, 5)) == Placement(columns=np.arange(3))
    assert Placement.leading((2,), (5,)) == Placement(rows=np.arange(2))
    assert Placement.leading((4, 5), (4, 5)).everywhere
    for part in ((2, 3), (2, 3, 2)):
        with pytest.raises(
            ValueError, match=r"leading entries: got \[2, 3.* of a tensor \[4, 5, 3"
        ):
            Placement.leading(part, whole.shape)
