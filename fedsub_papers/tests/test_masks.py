"""Masks: what is lowest and highest, ties by position, shares of zeros."""

import pytest
import torch

from fedsub_core.seeds import generator
from fedsub_papers.masks import highest, lowest, random, share_of, sparsity


def test_the_lowest_are_found_among_some_and_ties_go_by_position() -> None:
    values = torch.tensor([[3.0, 1.0, 1.0], [0.0, 1.0, 2.0]])
    candidates = torch.tensor([[True, True, True], [False, True, True]])
    assert lowest(values, candidates, 2).tolist() == [[False, True, True], [False, False, False]]
    assert lowest(values, candidates, 3).tolist() == [[False, True, True], [False, True, False]]
    assert highest(values, candidates, 2).tolist() == [[True, False, False], [False, False, True]]
    assert not lowest(values, candidates, 0).any()
    assert torch.equal(lowest(values, candidates, 5), candidates)


@pytest.mark.parametrize(
    ("numbers", "share", "found"), [(100, 0.57, 57), (100, 0.29, 29), (7, 0.5, 3), (10, 0.0, 0)]
)
def test_a_share_of_numbers_is_rounded_down(numbers: int, share: float, found: int) -> None:
    """0.57 * 100 is 56.99999999999999 in floats."""
    assert share_of(numbers, share) == found


def test_a_random_mask_has_as_many_zeros_as_asked_and_follows_its_stream() -> None:
    masks = [random((20, 30), 450, generator(seed, "", 0, "mask")) for seed in (1, 1, 2)]
    assert [int((~mask).sum()) for mask in masks] == [450] * 3
    assert torch.equal(masks[0], masks[1]) and not torch.equal(masks[0], masks[2])


def test_sparsity_is_over_masked_tensors_and_over_all_numbers() -> None:
    masks = {"w": torch.tensor([True, False, False, False])}
    tensors = {"w": torch.zeros(4), "b": torch.zeros(2)}
    assert sparsity(masks, tensors) == (pytest.approx(3 / 4), pytest.approx(3 / 6))
