import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fedsub_core.errors import ConfigError
from fedsub_core.methods import FUSIONS
from strategies.fedsub import fusion as fusion_module
from strategies.fedsub.fusion import fuse
from strategies.fedsub.membership import cluster_weights

OVERLAPPING = ["overlapping", "overlapping-any", "overlapping-additive"]


def reference(fusion, rows, masks, clusters, contributes, omega):
    """Equations 6-10 (and 6-7 of the first version), element by element, with plain loops."""
    n, units, width = rows.shape
    classes = clusters.shape[1]
    fused, replaced = np.zeros((n, units, width)), np.zeros((n, units), bool)

    def members(u, y):
        if clusters[u, y] < 0:
            return []
        return [v for v in range(n) if clusters[v, y] == clusters[u, y] and contributes[v, y]]

    def weight(v, y, cluster):
        if fusion == "leadership":
            return float(v == max(cluster, key=lambda k: (omega[k, y], -k)))
        total = sum(omega[k, y] for k in cluster)
        return omega[v, y] / total if total > 0 else 1 / len(cluster)

    for u in range(n):
        of_u = {y: members(u, y) for y in range(classes) if members(u, y)}
        own = [y for y in range(classes) if contributes[u, y]]
        for j in range(units):
            holding = [y for y, c in of_u.items() if all(masks[v, y, j] for v in c)]
            if fusion in ("avg", "leadership"):
                over = list(of_u)
                replaces = any(
                    masks[v, y, j] and weight(v, y, c) > 0 for y, c in of_u.items() for v in c
                )
            elif fusion == "overlapping":
                over = list(of_u)
                mine = bool(own) and all(masks[u, y, j] for y in own)
                replaces = mine and bool(of_u) and holding == list(of_u)
            else:
                over, replaces = holding, bool(holding)
                if fusion == "overlapping-additive":
                    replaces = replaces and any(masks[u, y, j] for y in own)
            if not replaces:
                continue
            replaced[u, j] = True
            for i in range(width):
                value = 0.0
                for y in over:
                    for v in of_u[y]:
                        value += weight(v, y, of_u[y]) * rows[v, j, i] * masks[v, y, j] / len(over)
                fused[u, j, i] = value
    if fusion == "overlapping-additive":
        for u in range(n):
            before = [rows[u, j, i] for j in range(units) if replaced[u, j] for i in range(width)]
            for j in range(units):
                if replaced[u, j]:
                    fused[u, j] += rows[u, j]
            now = math.sqrt(sum(x * x for x in fused[u].ravel()))
            if now > 0:
                fused[u] *= math.sqrt(sum(x * x for x in before)) / now
    return fused, replaced


def federation(seed, n=5, classes=3, units=6, width=3, k=3, have=0.7, select=0.7, imputed=0.5):
    """A random round: every client with a class is in a cluster, some of the others are imputed."""
    rng = np.random.default_rng(seed)
    contributes = rng.random((n, classes)) < have
    clusters = rng.integers(0, k, (n, classes))
    clusters[~contributes & (rng.random((n, classes)) >= imputed)] = -1
    masks = (rng.random((n, classes, units)) < select) & contributes[:, :, None]
    rows = rng.normal(size=(n, units, width)) * masks.any(1)[:, :, None]
    omega = rng.integers(0, 4, (n, classes)).astype(float)
    return rows.astype(np.float32), masks, clusters, contributes, omega


def run(fusion, rows, masks, clusters, contributes, omega):
    weights = cluster_weights(fusion, clusters, contributes, omega)
    fused, replaced = fuse(weights, torch.from_numpy(rows), torch.from_numpy(masks))
    assert fused.dtype == torch.float32 and fused.shape == rows.shape
    assert replaced.dtype == torch.bool and replaced.shape == rows.shape[:2]
    return fused.numpy(), replaced.numpy()


def integrated(rows, fused, replaced):
    """What the clients hold after the download."""
    return np.where(replaced[:, :, None], fused, rows)


rounds = st.builds(
    federation,
    seed=st.integers(0, 2**32 - 1),
    n=st.integers(1, 6),
    classes=st.integers(1, 4),
    units=st.integers(1, 6),
    width=st.integers(1, 4),
    k=st.integers(1, 4),
    have=st.floats(0, 1),
    select=st.sampled_from([0.3, 0.6, 0.9, 1.0]),
    imputed=st.floats(0, 1),
)


@pytest.mark.parametrize("fusion", FUSIONS)
@given(round=rounds)
@settings(max_examples=60, deadline=None)
def test_equals_the_equations(fusion, round):
    fused, replaced = run(fusion, *round)
    expected, expected_replaced = reference(fusion, *round)
    assert (replaced == expected_replaced).all()
    np.testing.assert_allclose(fused, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("fusion", FUSIONS)
def test_the_reference_comparison_is_not_empty(fusion):
    """The random rounds above replace units and leave units, in every fusion."""
    shares = [run(fusion, *federation(seed, select=0.9))[1].mean() for seed in range(20)]
    assert 0.05 < np.mean(shares) < 0.98


@pytest.mark.parametrize("fusion", FUSIONS)
@given(round=rounds, seed=st.integers(0, 99))
@settings(max_examples=30, deadline=None)
def test_permuting_clients_permutes_the_result(fusion, round, seed):
    rows, masks, clusters, contributes, _ = round
    # Distinct scores: a leader among equals is the smallest index by definition.
    omega = np.random.default_rng(seed).permutation(clusters.size).reshape(clusters.shape) + 1.0
    order = np.random.default_rng(seed).permutation(len(rows))
    fused, replaced = run(fusion, rows, masks, clusters, contributes, omega)
    again, again_replaced = run(
        fusion, *(a[order] for a in (rows, masks, clusters, contributes, omega))
    )
    assert (again_replaced == replaced[order]).all()
    np.testing.assert_allclose(again, fused[order], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("fusion", FUSIONS)
@given(round=rounds)
@settings(max_examples=30, deadline=None)
def test_how_clusters_are_numbered_does_not_matter(fusion, round):
    rows, masks, clusters, contributes, omega = round
    renumbered = np.where(clusters < 0, -1, 10 - clusters)
    fused, replaced = run(fusion, *round)
    again, again_replaced = run(fusion, rows, masks, renumbered, contributes, omega)
    assert (again == fused).all() and (again_replaced == replaced).all()


@pytest.mark.parametrize("fusion", FUSIONS)
def test_a_cluster_of_one_gives_its_member_back(fusion):
    rows, masks, _, contributes, omega = federation(1, classes=1, have=1.0)
    clusters = np.arange(5)[:, None]
    fused, replaced = run(fusion, rows, masks, clusters, contributes, omega)
    assert (replaced == masks[:, 0]).all()
    np.testing.assert_allclose(fused, rows, rtol=1e-6)


@pytest.mark.parametrize("fusion", OVERLAPPING)
def test_classes_that_only_u_has_never_change_u(fusion):
    """Three classes with different masks, u alone in each; others are imputed into its clusters."""
    rows, masks, clusters, contributes, omega = federation(2, n=4, imputed=1.0)
    contributes[0], contributes[1:] = True, False
    masks[0] = np.random.default_rng(0).random(masks[0].shape) < 0.7
    rows[0] = np.random.default_rng(1).normal(size=rows[0].shape) * masks[0].any(0)[:, None]
    clusters[:] = 0
    fused, replaced = run(fusion, rows, masks, clusters, contributes, omega)
    assert replaced[0].any()
    np.testing.assert_allclose(integrated(rows, fused, replaced)[0], rows[0], rtol=1e-6)


@pytest.mark.parametrize("fusion", FUSIONS)
def test_a_class_that_only_u_has_adds_nobody_elses_rows(fusion):
    """Class 1 is u's alone: whatever the others' rows, u's cluster of class 1 returns u's."""
    rows, masks, clusters, contributes, omega = federation(3, n=4, classes=2, have=1.0, select=1.0)
    clusters[:] = 0
    contributes[1:, 1] = False
    clusters[0, 0] = 9  # and in class 0 it is alone as well
    fused, replaced = run(fusion, rows, masks, clusters, contributes, omega)
    np.testing.assert_allclose(integrated(rows, fused, replaced)[0], rows[0], rtol=1e-6)
    # The imputed others do receive u's rows for class 1.
    receive = run(
        "overlapping-any", rows, masks, clusters * [[0, 1]] - [[1, 0]], contributes, omega
    )[0]
    np.testing.assert_allclose(receive[1:], np.broadcast_to(rows[0], receive[1:].shape), rtol=1e-6)


@pytest.mark.parametrize("fusion", FUSIONS)
@given(round=rounds)
@settings(max_examples=30, deadline=None)
def test_imputed_members_contribute_nothing(fusion, round):
    """What stands in the cache of a class that a client lacks changes nobody's result."""
    rows, masks, clusters, contributes, omega = round
    fused, replaced = run(fusion, *round)
    noisy, loud = masks | ~contributes[:, :, None], np.where(contributes, omega, 1e9)
    again, again_replaced = run(fusion, rows, noisy, clusters, contributes, loud)
    assert (again == fused).all() and (again_replaced == replaced).all()


def test_avg_of_identical_masks_with_sample_counts_is_fedavg():
    rng = np.random.default_rng(4)
    rows = rng.normal(size=(4, 5, 3)).astype(np.float32)
    samples = np.array([[10.0], [30], [5], [55]])
    mask = np.array([True, True, False, True, True])
    masks = np.broadcast_to(mask, (4, 1, 5)).copy()
    rows[:, ~mask] = 0
    ones = np.ones((4, 1), bool)
    fused, replaced = run("avg", rows, masks, np.zeros((4, 1), np.int64), ones, samples)
    expected = np.average(rows.astype(np.float64), axis=0, weights=samples[:, 0])
    assert (replaced == mask).all()
    for u in range(4):
        np.testing.assert_allclose(fused[u], expected, rtol=1e-5, atol=1e-6)


@given(seed=st.integers(0, 2**32 - 1))
@settings(max_examples=30, deadline=None)
def test_all_ones_masks_make_overlapping_equal_avg(seed):
    rows, masks, clusters, contributes, omega = federation(seed, select=1.0, imputed=0.5)
    contributes[:, 0] = True  # a client without any class takes no part in overlapping
    clusters[:, 0] = np.maximum(clusters[:, 0], 0)
    masks = np.broadcast_to(contributes[:, :, None], masks.shape).copy()
    rows = np.random.default_rng(seed).normal(size=rows.shape).astype(np.float32)
    fused, replaced = run("overlapping", rows, masks, clusters, contributes, omega)
    expected, _ = run("avg", rows, masks, clusters, contributes, omega)
    assert replaced.all()
    np.testing.assert_allclose(fused, expected, rtol=1e-5, atol=1e-6)


def test_the_five_fusions_by_hand():
    """Two clients, one cluster, two units; client 1 did not select unit 1. omega 1 : 3."""
    rows = np.array([[[1.0], [2.0]], [[5.0], [0.0]]], np.float32)
    masks = np.array([[[True, True]], [[True, False]]])
    args = (rows, masks, np.zeros((2, 1), np.int64), np.ones((2, 1), bool), np.array([[1.0], [3]]))
    only_first = [[True, False]] * 2
    for fusion, values, where in (
        ("avg", [[4, 0.5], [4, 0.5]], [[True, True]] * 2),
        ("leadership", [[5, 0], [5, 0]], only_first),
        ("overlapping", [[4, 0], [4, 0]], only_first),
        ("overlapping-any", [[4, 0], [4, 0]], only_first),
        ("overlapping-additive", [[1, 0], [5, 0]], only_first),
    ):
        fused, replaced = run(fusion, *args)
        assert replaced.tolist() == where, fusion
        np.testing.assert_allclose(fused[:, :, 0], values, rtol=1e-6, err_msg=fusion)


def test_additive_turns_the_row_and_keeps_the_layers_norm():
    """Own row (3, 4) and a mean of (3.5, 2): direction of (6.5, 6), length 5."""
    rows = np.array([[[3.0, 4.0]], [[4.0, 0.0]]], np.float32)
    ones = np.ones((2, 1), bool)
    fused, _ = run(
        "overlapping-additive",
        rows,
        ones[:, :, None],
        np.zeros((2, 1), np.int64),
        ones,
        np.ones((2, 1)),
    )
    length = math.hypot(6.5, 6)
    np.testing.assert_allclose(fused[0, 0], [5 * 6.5 / length, 5 * 6 / length], rtol=1e-6)
    assert np.linalg.norm(fused[1]) == pytest.approx(4, rel=1e-6)


def test_additive_survives_a_sum_of_zero():
    rows = np.array([[[1.0]], [[-3.0]]], np.float32)
    ones = np.ones((2, 1), bool)
    args = (rows, ones[:, :, None], np.zeros((2, 1), np.int64), ones, np.ones((2, 1)))
    assert run("overlapping-additive", *args)[0].ravel().tolist() == [0.0, -3.0]


@given(round=rounds)
@settings(max_examples=30, deadline=None)
def test_overlapping_is_the_most_cautious(round):
    """What overlapping replaces, -any replaces too, and avg replaces what -any does."""
    *cached, omega = round
    replaced = {f: run(f, *cached, omega + 1)[1] for f in FUSIONS}
    assert (replaced["overlapping"] <= replaced["overlapping-additive"]).all()
    assert (replaced["overlapping-additive"] <= replaced["overlapping-any"]).all()
    assert (replaced["overlapping-any"] <= replaced["avg"]).all()


@pytest.mark.parametrize("fusion", FUSIONS)
def test_a_client_in_no_cluster_gets_nothing(fusion):
    rows, masks, clusters, contributes, omega = federation(5, select=1.0, have=1.0)
    clusters[2], contributes[2] = -1, False
    fused, replaced = run(fusion, rows, masks, clusters, contributes, omega)
    assert replaced[[0, 1, 3, 4]].any() and not replaced[2].any() and not fused[2].any()


@pytest.mark.parametrize("fusion", FUSIONS)
def test_a_cluster_of_imputed_members_alone_gives_nothing(fusion):
    rows, masks, clusters, contributes, omega = federation(6, n=3, classes=2, have=1.0, select=1.0)
    clusters[:], contributes[:, 1] = 0, False
    alone = run(fusion, rows, masks, clusters, contributes, omega)
    clusters[:, 1] = -1
    without = run(fusion, rows, masks, clusters, contributes, omega)
    assert (alone[0] == without[0]).all() and (alone[1] == without[1]).all()


@pytest.mark.parametrize("fusion", FUSIONS)
def test_chunks_of_units_change_nothing(fusion, monkeypatch):
    round = federation(7, n=6, units=17)
    whole = run(fusion, *round)
    monkeypatch.setattr(fusion_module, "CHUNK_BYTES", 8 * 6 * 6 * 4)
    chunked = run(fusion, *round)
    np.testing.assert_allclose(chunked[0], whole[0], rtol=1e-6, atol=1e-7)
    assert (chunked[1] == whole[1]).all()


@pytest.mark.parametrize("fusion", FUSIONS)
def test_the_inputs_are_untouched(fusion):
    round = federation(8)
    copies = [a.copy() for a in round]
    run(fusion, *round)
    assert all((a == b).all() for a, b in zip(round, copies, strict=True))


@pytest.mark.parametrize("scale", [1e-310, 1e-20, 1.0, 1e300])
def test_only_the_ratio_of_scores_counts(scale):
    *cached, omega = federation(9, have=1.0)
    weights = cluster_weights("avg", *cached[2:], omega * scale).weight
    expected = cluster_weights("avg", *cached[2:], omega).weight
    torch.testing.assert_close(weights, expected, rtol=1e-9, atol=1e-12)
    assert weights.sum(2).numpy() == pytest.approx(1.0)


def test_scores_of_zero_weigh_equally_and_lead_by_index():
    clusters, ones = np.zeros((3, 1), np.int64), np.ones((3, 1), bool)
    zero = np.zeros((3, 1))
    assert cluster_weights("avg", clusters, ones, zero).weight[0, 0].numpy() == pytest.approx(1 / 3)
    leader = cluster_weights("leadership", clusters, ones, zero).weight[0]
    assert leader.tolist() == [[1.0, 0.0, 0.0]] * 3
    tie = cluster_weights("leadership", clusters, ones, np.array([[1.0], [2], [2]])).weight[0]
    assert tie.tolist() == [[0.0, 1.0, 0.0]] * 3


def test_a_wrong_fusion_is_refused_with_the_nearest():
    ones = np.ones((1, 1))
    with pytest.raises(ConfigError, match=r"got 'overlaping'.*did you mean 'overlapping'\?"):
        cluster_weights("overlaping", ones.astype(np.int64), ones.astype(bool), ones)
