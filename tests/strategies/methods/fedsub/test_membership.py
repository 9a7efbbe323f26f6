"""Who counts how much in a cluster."""

import numpy as np
import pytest
import torch

from fedsub.testing.refusals import refused
from fedsub_core.errors import ConfigError
from strategies.methods.fedsub.membership import Clusters, cluster_weights


def test_members_and_weights_by_hand() -> None:
    """Class 0: clients 0, 1, 3 share a cluster, 3 is imputed; client 2 is in none."""
    clusters = np.array([[7], [7], [-1], [7]])
    contributes = np.array([[True], [True], [False], [False]])
    omega = np.array([[1.0], [3], [np.nan], [np.nan]])
    weights = cluster_weights("overlapping", clusters, contributes, omega)
    assert weights.weight[:, 0].tolist() == [0.25, 0.75, 0, 0]
    assert weights.cluster[:, 0].tolist() == [0, 0, -1, 0]
    assert weights.in_cluster[:, 0].tolist() == [True, True, False, True]


@pytest.mark.parametrize("scale", [1e-310, 1e-20, 1.0, 1e300])
def test_only_the_ratio_of_scores_counts(scale: float) -> None:
    rng = np.random.default_rng(9)
    clusters, members = rng.integers(0, 3, (5, 3)), np.ones((5, 3), bool)
    omega = rng.integers(0, 4, (5, 3)).astype(float)
    weights = cluster_weights("avg", clusters, members, omega * scale)
    expected = cluster_weights("avg", clusters, members, omega).weight
    torch.testing.assert_close(weights.weight, expected, rtol=1e-9, atol=1e-12)
    assert weights.summed(weights.weight).numpy() == pytest.approx(1.0)


def test_scores_of_zero_weigh_equally_and_lead_by_index() -> None:
    clusters, ones = np.zeros((3, 1), np.int64), np.ones((3, 1), bool)
    zero = np.zeros((3, 1))
    assert cluster_weights("avg", clusters, ones, zero).weight.numpy() == pytest.approx(1 / 3)
    leader = cluster_weights("leadership", clusters, ones, zero).weight[:, 0]
    assert leader.tolist() == [1.0, 0.0, 0.0]
    tie = cluster_weights("leadership", clusters, ones, np.array([[1.0], [2], [2]])).weight[:, 0]
    assert tie.tolist() == [0.0, 1.0, 0.0]


def test_a_wrong_fusion_is_refused_with_the_nearest() -> None:
    ones = np.ones((1, 1))
    with refused(ConfigError, "'overlapping'", got="'overlaping'"):
        cluster_weights("overlaping", ones.astype(np.int64), ones.astype(bool), ones)


MOST, FEW = [0, 0, 1, 1, 0, -1], [2, 0, -1, -1, 1, -1, 2, 3]


@pytest.mark.parametrize(("cluster", "everybody"), [(MOST, True), (FEW, False), ([0, 1, 2], False)])
def test_members_get_their_clusters_sum_whoever_is_carried_along(
    cluster: list[int], everybody: bool
) -> None:
    clusters = Clusters(torch.tensor(cluster), shared=True)
    who, label, adds, inside = clusters.carried
    assert isinstance(who, slice) is everybody
    values = torch.tensor([[2.0**i] for i in range(len(cluster))])
    got = torch.zeros_like(values)
    got[who] += torch.from_numpy(adds @ values[who].numpy())[label] * inside
    for u, own in enumerate(cluster):
        members = [v for v, other in enumerate(cluster) if other == own and own >= 0]
        assert got[u] == (sum(2.0**v for v in members) if len(members) > 1 else 0)
