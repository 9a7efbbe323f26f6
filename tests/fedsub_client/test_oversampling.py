"""Synthetic samples: how many, and where they lie."""

from collections.abc import Sequence

import pytest
import torch

from fedsub_client.methods.fedhome import oversample, synthetic
from fedsub_core.data.stacks import Stack, stack
from fedsub_core.seeds import generator


def people(*counts: Sequence[int]) -> Stack:
    """Return a person for each entry, with so many samples of each class."""
    own = torch.Generator().manual_seed(4)
    ys = [torch.arange(len(n)).repeat_interleave(torch.tensor(n)).numpy() for n in counts]
    xs = [torch.randn(len(y), 6, generator=own).numpy() for y in ys]
    return stack([f"c{i}" for i in range(len(counts))], xs, ys)


def classes(data: Stack, i: int) -> list[int]:
    return data.y[i, : data.counts[i]].bincount().tolist()


def test_every_class_a_person_has_becomes_as_large_as_its_largest() -> None:
    """10, 3, 1: 10, 10, 10; a class that a person lacks stays away."""
    data = people((10, 3, 1), (2, 0, 7))
    more = oversample(data, seed=0)
    assert classes(more, 0) == [10, 10, 10] and classes(more, 1) == [7, 0, 7]
    assert more.counts == (30, 14) and more.clients == data.clients
    for i, n in enumerate(data.counts):
        assert torch.equal(more.x[i, :n], data.x[i, :n]), "real samples come first, as they were"
    single = data.x[0, 13]
    copies = more.x[0, :30][more.y[0, :30] == 2]
    assert torch.equal(copies, single.expand(10, 6)), "a single sample is copied"


@pytest.mark.parametrize("counts", [(8, 8, 8), (5, 0, 0), (4,)])
@pytest.mark.parametrize("drop", [False, True])
def test_balanced_data_and_one_class_stay(counts: Sequence[int], drop: bool) -> None:
    data = people(counts)
    more = oversample(data, seed=0, drop_rare=drop)
    assert torch.equal(more.x, data.x) and torch.equal(more.y, data.y)
    assert more.counts == data.counts


def test_synthetic_samples_lie_between_one_and_one_of_its_nearest() -> None:
    x = torch.randn(20, 3, generator=torch.Generator().manual_seed(1))
    distances = torch.cdist(x, x)
    for made in synthetic(x, 200, 4, generator(0, "a", 0, "test")):
        ends = [
            (a, b)
            for a in range(20)
            for b in distances[a].argsort()[1:5].tolist()
            if torch.isclose((made - x[a]).norm() + (x[b] - made).norm(), (x[b] - x[a]).norm())
        ]
        assert ends, "between no sample and any of its four nearest"


def test_two_samples_have_one_neighbour_and_shares_are_uniform() -> None:
    x = torch.tensor([[0.0], [1.0]])
    made = synthetic(x, 4000, 5, generator(0, "a", 0, "test")).flatten()
    assert made.min() >= 0 and made.max() <= 1
    quarters = torch.histc(made, 4, 0, 1) / len(made)
    torch.testing.assert_close(quarters, torch.full((4,), 0.25), atol=0.03, rtol=0)


def test_who_else_is_in_the_stack_and_the_round_change_nothing() -> None:
    data = people((10, 3, 1), (2, 0, 7), (9, 9, 4))
    together, alone = oversample(data, 5), oversample(data.select([1]), 5)
    n = alone.counts[0]
    assert torch.equal(together.x[1, :n], alone.x[0]) and torch.equal(together.y[1, :n], alone.y[0])
    assert not torch.equal(oversample(data, 6).x, together.x)


def test_rare_classes_may_be_left_out() -> None:
    """Up to k samples is rare; someone who has nothing else keeps all."""
    data = people((10, 5, 6), (3, 2, 1))
    more = oversample(data, 0, 5, drop_rare=True)
    assert classes(more, 0) == [10, 0, 10]
    assert classes(more, 1) == [3, 3, 3]


def test_windows_are_mixed_as_a_whole() -> None:
    x = torch.randn(1, 5, 2, 4)
    data = Stack(("a",), x, torch.tensor([[0, 0, 0, 1, 1]]), (5,))
    more = oversample(data, 0)
    assert more.x.shape == (1, 6, 2, 4)
    share = (more.x[0, 5] - x[0, 3]) / (x[0, 4] - x[0, 3])
    torch.testing.assert_close(share, share[:1, :1].expand(2, 4), atol=1e-4, rtol=1e-4)
