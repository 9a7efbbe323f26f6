"""A person's gate: responsibilities, and weights between the people's and one's own."""

import pytest
import torch
from torch import Tensor

from fedsub_client.methods.fedsub_gated.gate import (
    explained,
    own_sums,
    posterior,
    responsibilities,
    trust,
)
from fedsub_core.data.stacks import Stack


def own_weights(chosen: Tensor, prior: Tensor, alpha: float) -> Tensor:
    return posterior(own_sums(chosen, prior, alpha), prior, alpha)


def test_responsibilities_by_hand() -> None:
    chosen = torch.tensor([[[0.6, 0.2], [0.0, 0.5], [0.0, 0.0]]])
    found = responsibilities(chosen, torch.tensor([[0.25, 0.75]]))
    torch.testing.assert_close(found, torch.tensor([[[0.5, 0.5], [0.0, 1.0], [0.0, 0.0]]]))


def test_without_samples_they_are_the_peoples() -> None:
    prior = torch.tensor([[0.3, 0.7]])
    torch.testing.assert_close(own_weights(torch.zeros(1, 4, 2), prior, 50.0), prior)
    torch.testing.assert_close(own_weights(torch.zeros(1, 4, 2), prior, 0.0), prior)


def test_they_are_where_the_posterior_is_greatest() -> None:
    stream = torch.Generator().manual_seed(0)
    chosen, prior, alpha = torch.rand(1, 60, 2, generator=stream), torch.tensor([[0.2, 0.8]]), 8.0
    found = own_weights(chosen, prior, alpha)[0, 0].item()
    grid = torch.linspace(0.001, 0.999, 999, dtype=torch.float64)
    likely = (grid[:, None] * chosen[0, :, 0] + (1 - grid[:, None]) * chosen[0, :, 1]).log().sum(1)
    posterior = likely + alpha * (0.2 * grid.log() + 0.8 * (1 - grid).log())
    assert found == pytest.approx(grid[posterior.argmax()].item(), abs=0.01)


def test_many_samples_outweigh_the_people() -> None:
    chosen = torch.tensor([[[0.9, 0.1]] * 500, [[0.9, 0.1]] * 2 + [[0.0, 0.0]] * 498])
    found = own_weights(chosen, torch.tensor([[0.1, 0.9]] * 2), alpha=20.0)
    assert found[0, 0] > 0.8 and found[1, 0] < 0.3
    torch.testing.assert_close(found.sum(1), torch.ones(2))


def test_a_sample_that_nobody_explains_counts_for_nobody_and_weights_sum_to_1() -> None:
    prior = torch.tensor([[0.25, 0.75]])
    for alpha in (0.0, 50.0):
        found = own_weights(torch.tensor([[[0.8, 0.8], [1e-30, 1e-30], [0.0, 0.0]]]), prior, alpha)
        torch.testing.assert_close(found, prior)
    torch.testing.assert_close(own_weights(torch.zeros(1, 1, 2), prior, 0.0), prior)
    unsure = torch.tensor([[[1e-30, 3e-30]]])
    found = responsibilities(unsure, torch.tensor([[0.5, 0.5]]))
    torch.testing.assert_close(found, torch.tensor([[[0.25, 0.75]]]))


def test_who_missed_rounds_keeps_its_own_samples_word_and_hears_the_peoples() -> None:
    """As if it had judged anew under what the people believe by now."""
    chosen = torch.tensor([[[0.9, 0.1]] * 6])
    sums = own_sums(chosen, torch.tensor([[0.5, 0.5]]), 50.0)
    now = torch.tensor([[0.2, 0.8]])
    found = posterior(sums, now, 50.0)
    torch.testing.assert_close(found, own_weights(chosen, now, 50.0), atol=0.05, rtol=0)
    assert 0.2 < found[0, 0] < 0.35
    assert posterior(sums, torch.tensor([[0.0, 1.0]]), 50.0).tolist() == [[0.0, 1.0]]


def test_how_well_samples_are_explained_by_hand() -> None:
    chosen = torch.tensor([[[0.2, 0.9], [0.4, 0.5], [0.0, 0.0]], [[0.0, 0.0]] * 3])
    judged = Stack(("a", "b"), torch.zeros(2, 3, 4), torch.zeros(2, 3, dtype=torch.int64), (2, 0))
    torch.testing.assert_close(explained(chosen, judged), torch.tensor([[0.3, 0.5], [0.0, 0.0]]))


def test_who_fails_on_what_it_knew_is_believed_less_and_knowing_by_heart_wins_nothing() -> None:
    then = torch.tensor([[0.3, 0.4], [0.4, 0.4], [0.0, 0.0]])
    now = torch.tensor([[0.5, 0.4], [0.1, 0.4], [0.5, 0.0]])
    found = trust(now, then)
    torch.testing.assert_close(found, torch.tensor([[1.0, 1.0], [0.25**4, 1.0], [1.0, 1.0]]))
