"""Weights of clusters that did not change are those of before; all others are made anew."""

import pytest
import torch

from strategies.methods.fedsub.membership import cluster_weights
from strategies.methods.fedsub.weights_memory import WeightsMemory

EVERYBODY = torch.arange(3)


@pytest.mark.parametrize("changed", range(3))
def test_what_changes_in_place_is_weighed_anew(changed: int) -> None:
    """The server's cache changes in place: its tensors stay the same objects."""
    said = torch.tensor([[0], [0], [1]]), torch.ones(3, 1, dtype=torch.bool), torch.ones(3, 1)
    memory = WeightsMemory("avg")
    before = memory.of(*said)(EVERYBODY)
    assert memory.of(*(tensor.clone() for tensor in said))(EVERYBODY) is before
    said[changed][0] = torch.tensor([1, 0, 3])[changed]
    after = memory.of(*said)(EVERYBODY)
    clusters, contributes, omega = (tensor.numpy() for tensor in said)
    expected = cluster_weights("avg", clusters, contributes, omega)
    assert not torch.equal(after.weight, before.weight)
    assert torch.equal(after.weight, expected.weight)


def test_people_who_hold_the_same_have_weights_of_their_own() -> None:
    said = torch.zeros(3, 1, dtype=torch.int64), torch.ones(3, 1, dtype=torch.bool)
    weigh = WeightsMemory("avg").of(*said, torch.tensor([[1.0], [3.0], [4.0]]))
    assert weigh(EVERYBODY).weight.flatten().tolist() == [0.125, 0.375, 0.5]
    assert weigh(EVERYBODY[:2]).weight.flatten().tolist() == [0.25, 0.75]
