"""CA-AFP's arithmetic, by hand."""

import math

import pytest
import torch

from fedsub_papers.strategies.parts.pruning import (
    Weights,
    entropy,
    moved,
    moves,
    scores,
    target_sparsity,
)

PLAIN = Weights()


@pytest.mark.parametrize(
    ("spread", "members", "expected"),
    # The second is the clip of 0.4; the last the report's printed cluster of five.
    [(0.0, 10, 0.6), (math.log(6), 10, 0.5), (0.392, 5, 0.6062), (0.0, 1, 0.69)],
)
def test_the_sparsity_of_a_group(spread: float, members: int, expected: float) -> None:
    assert target_sparsity(spread, 6, members) == pytest.approx(expected, abs=1e-4)


def test_entropy_is_of_shares_in_nats() -> None:
    assert entropy(torch.tensor([5.0, 5.0, 0.0])) == pytest.approx(math.log(2))
    assert entropy(torch.tensor([9.0, 0.0])) == 0.0


def test_with_equal_members_and_no_gradients_scores_order_as_magnitudes() -> None:
    weight = torch.randn(6, 7, generator=torch.Generator().manual_seed(1))
    found = scores(weight, weight.expand(4, 6, 7), None, PLAIN, relative=False)
    assert torch.equal(found.flatten().argsort(), weight.abs().flatten().argsort())
    assert found.max() == pytest.approx(1.0)


def test_agreement_is_the_mean_sign() -> None:
    """Signs +, +, -: 1/3; a zero gradient has no sign."""
    gradients = torch.tensor([[2.0, 1.0], [0.1, 0.0], [-5.0, 0.0]])
    same = torch.ones(3, 2)
    found = scores(torch.zeros(2), same, gradients, Weights(0, 0, 1), relative=False)
    assert found.tolist() == [pytest.approx(1 / 3), pytest.approx(1 / 3)]


@pytest.mark.parametrize(("relative", "expected"), [(False, [1.0, 0.5]), (True, [1.0, 1 / 3])])
def test_likeness_falls_with_the_variance_of_members(relative: bool, expected: list[float]) -> None:
    """Variances 0 and 1 (population's), their mean 1/2."""
    members = torch.tensor([[3.0, 1.0], [3.0, -1.0]])
    found = scores(torch.zeros(2), members, None, Weights(0, 1, 0), relative)
    assert found.tolist() == [pytest.approx(value) for value in expected]


@pytest.mark.parametrize(
    ("active", "target", "left", "expected"),
    [
        (100, 0.6, 4, (70, 0)),  # the first move goes to 0.7 at once
        (30, 0.7, 3, (2, 2)),  # 1.5 rounds half to even
        (30, 0.8, 2, (7, 2)),  # churn 2, push 5
        (30, 0.5, 2, (2, 12)),  # regrows to a denser target: push -10
        (30, 0.5, 1, (2, 22)),
        (40, 0.5, 1, (2, 12)),  # a denser one is not pruned back to 0.7
    ],
)
def test_how_many_weights_move(
    active: int, target: float, left: int, expected: tuple[int, int]
) -> None:
    assert moves(100, active, target, 0.7, left) == expected


def test_nothing_churns_where_there_is_no_room_to_grow() -> None:
    assert moves(100, 100, 0.0, 0.0, 3) == (0, 0)


def test_what_a_move_prunes_does_not_grow_in_it() -> None:
    mask = torch.tensor([True, True, True, False, False])
    score = torch.tensor([0.1, 0.5, 0.9, 0.0, 0.0])
    growth = torch.tensor([9.0, 0.0, 0.0, 1.0, 2.0])
    assert moved(mask, score, growth, 1, 1).tolist() == [False, True, True, False, True]
    assert moved(mask, score, growth, 1, 5).tolist() == [False, True, True, True, True]
