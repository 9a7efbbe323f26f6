"""Distances of all pairs: numbers by hand, and scipy's."""

import pytest
import torch
from scipy.spatial.distance import cdist

from strategies.parts import distances
from strategies.parts.distances import cosine_distances, flattened, products, squared_distances


def test_tensors_stand_side_by_side_in_their_order() -> None:
    tensors = {"b": torch.tensor([[[1.0, 2.0], [3.0, 4.0]]] * 2), "a": torch.tensor([[5.0], [6.0]])}
    assert flattened(tensors).tolist() == [[1, 2, 3, 4, 5], [1, 2, 3, 4, 6]]


def test_cosine_distances_by_hand() -> None:
    x = torch.tensor([[1.0, 0.0], [2.0, 0.0], [0.0, 3.0], [-1.0, 0.0], [0.0, 0.0]])
    assert cosine_distances(x).tolist() == [
        [0, 0, 1, 2, 1],
        [0, 0, 1, 2, 1],
        [1, 1, 0, 1, 1],
        [2, 2, 1, 0, 1],
        [1, 1, 1, 1, 0],
    ]


def test_squared_distances_by_hand() -> None:
    x = torch.tensor([[0.0, 0.0], [3.0, 4.0], [3.0, 4.0]])
    found = squared_distances(x)
    assert found.flatten().tolist() == pytest.approx([0, 25, 25, 25, 0, 0, 25, 0, 0], abs=1e-5)
    assert squared_distances(torch.tensor([[0.0], [1.0]])).tolist() == [[0, 1], [1, 0]]


def test_both_are_scipys() -> None:
    x = torch.randn(7, 501, generator=torch.Generator().manual_seed(0))
    for ours, metric in ((cosine_distances, "cosine"), (squared_distances, "sqeuclidean")):
        found = ours(x)
        assert found.dtype == torch.float64 and not found.diagonal().any()
        expected = torch.from_numpy(cdist(x.double(), x.double(), metric))
        torch.testing.assert_close(found, expected, atol=1e-6, rtol=1e-6)


def test_models_that_are_nearly_alike_keep_their_distances() -> None:
    """A thousandth apart at a length of 100,000: even in float64, little would be left."""
    common = torch.full((1, 10_000), 1000.0)
    apart = torch.zeros(3, 10_000)
    apart[1, 0], apart[2, 1] = 2**-10, 2**-9
    found = squared_distances(common + apart)
    assert found[0].tolist() == pytest.approx([0, 2**-20, 2**-18], rel=1e-3)
    assert found[1, 2].item() == pytest.approx(2**-20 + 2**-18, rel=1e-3)
    near = cosine_distances(common / 100 + apart)[0, 2].item()
    assert near == pytest.approx(2**-19 / 1e6, rel=1e-3)


def test_nobody_and_one_are_at_no_distance() -> None:
    for ours in (cosine_distances, squared_distances):
        assert ours(torch.zeros(0, 3)).shape == (0, 0)
        assert ours(torch.ones(1, 3)).tolist() == [[0]]


def test_blocks_add_up(monkeypatch: pytest.MonkeyPatch) -> None:
    x = torch.randn(3, 100, generator=torch.Generator().manual_seed(1))
    whole = products(x)
    monkeypatch.setattr(distances, "BLOCK", 20)
    torch.testing.assert_close(products(x), whole, atol=1e-12, rtol=1e-12)
