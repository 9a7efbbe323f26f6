"""Taking each client's samples in an order of its own."""

from __future__ import annotations

import pytest
import torch

from fedsub_core.data.stacks import taken


@pytest.mark.parametrize("features", [(), (4,), (3, 5)])
def test_each_client_gets_its_own_samples_in_its_order(features: tuple[int, ...]) -> None:
    values = torch.arange(2 * 7 * 15).view(2, 7, 15)[..., : torch.Size(features).numel()]
    values = values.reshape(2, 7, *features)
    order = torch.tensor([[6, 0, 0], [1, 2, 3]])
    found = taken(values, order)
    assert found.shape == (2, 3, *features)
    for client in range(2):
        assert torch.equal(found[client], values[client][order[client]])


@pytest.mark.parametrize("samples", [0, 3])
def test_of_no_samples_none_are_taken(samples: int) -> None:
    none = torch.zeros(2, 0, dtype=torch.int64)
    assert taken(torch.ones(2, samples, 4), none).shape == (2, 0, 4)
