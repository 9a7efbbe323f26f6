"""A few members of a cluster do not decide what it gives the others."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from torch import Tensor

from fedsub.testing.refusals import refused
from fedsub_core.config.robust import RobustSettings
from fedsub_core.errors import ConfigError
from fedsub_core.methods.fedsub import FUSIONS
from strategies.methods.fedsub.fusion import fuse
from strategies.methods.fedsub.membership import ClusterWeights, cluster_weights
from strategies.methods.fedsub.robust import row_mean, without_outliers

from .by_hand import strategy_of
from .equations import WAYS, Round, rounds

MEANS = ("trimmed-mean", "median")


def settings_of(filters: str, share: float = 0.2) -> RobustSettings:
    return RobustSettings.parse(filters, share)


def town(values: list[float], omega: list[float] | None = None) -> tuple[ClusterWeights, Tensor]:
    """Clients in one cluster of one class, each with one row of one number."""
    n = len(values)
    scores = np.array([omega or [1.0] * n]).T
    weights = cluster_weights("avg", np.zeros((n, 1), np.int64), np.ones((n, 1), bool), scores)
    return weights, torch.tensor(values, dtype=torch.float32).view(n, 1, 1)


def fused(filters: str, values: list[float], omega: list[float] | None = None) -> list[float]:
    weights, rows = town(values, omega)
    settings, masks = settings_of(filters), torch.ones(len(values), 1, 1, dtype=torch.bool)
    weights = without_outliers(weights, [rows], settings)
    return fuse(weights, rows, masks, row_mean(settings))[0].flatten().tolist()


def weighted(rows: Tensor, shares: Tensor) -> Tensor:
    return torch.einsum("m,muw->uw", shares, rows.double()).float()


@pytest.mark.parametrize(("fusion", "reading"), WAYS)
@given(round=rounds)
def test_with_the_weighted_mean_nothing_changes(fusion: str, reading: str, round: Round) -> None:
    rows, masks, clusters, contributes, omega = round
    weights = cluster_weights(fusion, clusters, contributes, omega, reading)
    args = weights, torch.from_numpy(rows), torch.from_numpy(masks)
    for ours, plain in zip(fuse(*args, weighted), fuse(*args), strict=True):
        torch.testing.assert_close(ours, plain, rtol=1e-4, atol=1e-4)


def test_the_means_of_a_cluster_by_hand() -> None:
    """Of five one is left out at either end; with scores the others keep their weights."""
    assert fused("trimmed-mean", [1, 2, 3, 4, 1000]) == [3.0] * 5
    assert fused("trimmed-mean", [1, 2, 3, 4, 1000], [1, 3, 1, 1, 1]) == pytest.approx([2.6] * 5)
    assert fused("median", [5, 1, 1000]) == [5.0] * 3
    assert fused("median", [5, 1, 1000], [1, 9, 1]) == [5.0] * 3


def test_krum_leaves_out_who_is_far_who_still_receives() -> None:
    values = [1, 1.1, 0.9, 1, 40]
    assert fused("multi-krum", values) == pytest.approx([1.0] * 5)
    assert fused("none", values) == pytest.approx([8.8] * 5)


@pytest.mark.parametrize("filters", ["multi-krum", *MEANS])
def test_of_two_nobody_can_tell_who_is_the_odd_one(filters: str) -> None:
    found = fused(filters, [1, 3])
    assert found == ([1.0, 1.0] if filters == "median" else [2.0, 2.0])
    assert fused(filters, [7]) == [7.0]


def test_krum_of_one_class_leaves_the_others_alone() -> None:
    """Three clients in one cluster of class 0, where the third is far; alone in class 1."""
    clusters = np.array([[0, 0], [0, 1], [0, 2]])
    weights = cluster_weights("avg", clusters, np.ones((3, 2), bool), np.ones((3, 2)))
    rows = torch.tensor([1.0, 1.0, 9.0]).view(3, 1, 1)
    after = without_outliers(weights, [rows], settings_of("multi-krum"))
    assert after.contributes.tolist() == [[True, True], [True, True], [False, True]]
    assert after.weight[:, 0].tolist() == [0.5, 0.5, 0.0]
    assert torch.equal(after.weight[:, 1], weights.weight[:, 1])
    assert torch.equal(after.in_cluster, weights.in_cluster)


def test_where_krum_leaves_nobody_with_a_score_the_others_weigh_alike() -> None:
    weights, rows = town([1, 3, 40], [0, 0, 5])
    after = without_outliers(weights, [rows], settings_of("multi-krum"))
    assert after.weight[:, 0].tolist() == [0.5, 0.5, 0.0]


@pytest.mark.parametrize("fusion", FUSIONS[:3])
@pytest.mark.parametrize("filters", ["multi-krum", *MEANS])
def test_one_of_five_that_negates_its_rows_moves_nobody(fusion: str, filters: str) -> None:
    stream = torch.Generator().manual_seed(1)
    honest = 1 + 0.01 * torch.randn(1, 4, 3, generator=stream)
    rows = honest + 0.01 * torch.randn(5, 4, 3, generator=stream)
    rows[4] = -rows[4]
    ones = np.ones((5, 1), bool)
    weights = cluster_weights(fusion, np.zeros((5, 1), np.int64), ones, np.ones((5, 1)))
    masks, settings = torch.ones(5, 1, 4, dtype=torch.bool), settings_of(filters)
    after = without_outliers(weights, [rows], settings)
    found, replaced = fuse(after, rows, masks, row_mean(settings))
    assert replaced[:4].all()
    moved = replaced[:4, :, None] * (found[:4] - honest)
    plain = fuse(weights, rows, masks)[0][:4] - honest
    # Additive turns rows and keeps lengths: the plain mean only shows in directions there.
    assert moved.abs().max() < 0.1
    assert fusion == "overlapping-additive" or plain.abs().max() > 0.3


def test_leadership_has_no_mean_to_trim() -> None:
    strategy = strategy_of(fusion="leadership")
    wanted = replace(strategy.half.settings, robust=settings_of("median"))
    with refused(ConfigError, "robust", got=["'median'", "fedsub.fusion=leadership"]):
        type(strategy.half)(wanted)
