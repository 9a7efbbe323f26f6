"""Means of models over rounds, by hand."""

import pytest
import torch

from fedsub_client.mean_models import MEAN, smoothed


@pytest.mark.parametrize(
    ("round", "most", "expected"),
    [
        (1, 0.8, 8.0),  # nothing was before
        (11, 0.8, 6.0),  # half of it
        (1000, 0.8, 8 * 0.2 + 4 * 0.8),
        (1000, 0.0, 8.0),
    ],
)
def test_a_mean_takes_more_of_the_past_as_rounds_go_on(
    round: int, most: float, expected: float
) -> None:
    state = {"local.a": torch.tensor([8.0]), MEAN + "local.a": torch.tensor([4.0])}
    found = smoothed(state, ["local.a"], most, round)
    assert found.keys() == {MEAN + "local.a"}
    assert found[MEAN + "local.a"].item() == pytest.approx(expected)
    assert smoothed(state, [], most, round) == {}
