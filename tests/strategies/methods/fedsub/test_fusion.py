"""The fusions in all their readings, against the papers' equations, element by element."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from fedsub_core.methods.fedsub import FUSIONS, READINGS
from strategies.methods.fedsub import fusion as fusion_module
from strategies.methods.fedsub.fusion import fuse
from strategies.methods.fedsub.membership import cluster_weights

from .equations import READ, WAYS, Array, Fused, Round, federation, reference, rounds


def run(
    fusion: str,
    rows: Array,
    masks: Array,
    clusters: Array,
    contributes: Array,
    omega: Array,
    reading: str = READINGS[0],
) -> Fused:
    weights = cluster_weights(fusion, clusters, contributes, omega, reading)
    fused, replaced = fuse(weights, torch.from_numpy(rows), torch.from_numpy(masks))
    assert (fused.dtype, fused.shape) == (torch.float32, rows.shape)
    assert (replaced.dtype, replaced.shape) == (torch.bool, rows.shape[:2])
    assert not fused[~replaced].any()
    return fused.numpy(), replaced.numpy()


def integrated(rows: Array, fused: Array, replaced: Array) -> Array:
    """What the clients hold after the download."""
    return np.where(replaced[:, :, None], fused, rows)


@pytest.mark.parametrize(("fusion", "reading"), WAYS)
@given(round=rounds)
def test_equals_the_equations(fusion: str, reading: str, round: Round) -> None:
    fused, replaced = run(fusion, *round, reading)
    expected, expected_replaced = reference(fusion, *round, reading)
    assert (replaced == expected_replaced).all()
    np.testing.assert_allclose(fused, expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(("fusion", "reading"), WAYS)
def test_the_reference_comparison_is_not_empty(fusion: str, reading: str) -> None:
    """The random rounds above replace units and leave units, in every fusion."""
    shares = [run(fusion, *federation(seed, select=0.9), reading)[1].mean() for seed in range(20)]
    assert 0.05 < np.mean(shares) < 0.98


@pytest.mark.parametrize(("fusion", "reading"), WAYS)
@given(round=rounds, seed=st.integers(0, 99))
def test_permuting_clients_permutes_the_result(
    fusion: str, reading: str, round: Round, seed: int
) -> None:
    rows, masks, clusters, contributes, _ = round
    # Distinct scores: a leader among equals is the smallest index by definition.
    omega = np.random.default_rng(seed).permutation(clusters.size).reshape(clusters.shape) + 1.0
    order = np.random.default_rng(seed).permutation(len(rows))
    cached = (rows, masks, clusters, contributes, omega)
    fused, replaced = run(fusion, *cached, reading)
    moved = (rows[order], masks[order], clusters[order], contributes[order], omega[order])
    again, again_replaced = run(fusion, *moved, reading)
    assert (again_replaced == replaced[order]).all()
    np.testing.assert_allclose(again, fused[order], rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(("fusion", "reading"), WAYS)
def test_a_cluster_of_one_gives_its_member_back(fusion: str, reading: str) -> None:
    rows, masks, _, contributes, omega = federation(1, classes=1, have=1.0)
    clusters = np.arange(5)[:, None]
    fused, replaced = run(fusion, rows, masks, clusters, contributes, omega, reading)
    assert (replaced == masks[:, 0]).all()
    np.testing.assert_allclose(fused, rows, rtol=1e-6)


@pytest.mark.parametrize("fusion", READ)
@given(seed=st.integers(0, 2**32 - 1))
def test_alone_a_client_keeps_its_rows(fusion: str, seed: int) -> None:
    rows, masks, clusters, contributes, omega = federation(seed, have=1.0)
    clusters[:] = np.arange(len(rows))[:, None]
    for reading in READINGS:
        fused, replaced = run(fusion, rows, masks, clusters, contributes, omega, reading)
        assert (integrated(rows, fused, replaced) == rows).all()


@pytest.mark.parametrize("fusion", [f for f in FUSIONS if f.startswith("overlapping")])
def test_classes_that_only_u_has_never_change_u(fusion: str) -> None:
    """Three classes with different masks, u alone in each; others are imputed into its clusters."""
    rows, masks, clusters, contributes, omega = federation(2, n=4, imputed=1.0)
    contributes[0], contributes[1:] = True, False
    masks[0] = np.random.default_rng(0).random(masks[0].shape) < 0.7
    masks[0, :, 0], masks[0, 0, 1] = True, False
    rows[0] = np.random.default_rng(1).normal(size=rows[0].shape) * masks[0].any(0)[:, None]
    clusters[:] = 0
    fused, replaced = run(fusion, rows, masks, clusters, contributes, omega)
    assert replaced[0].any()
    np.testing.assert_allclose(integrated(rows, fused, replaced)[0], rows[0], rtol=1e-6)


@pytest.mark.parametrize(("fusion", "reading"), WAYS)
def test_a_class_that_only_u_has_adds_nobody_elses_rows(fusion: str, reading: str) -> None:
    """Class 1 is u's alone: whatever the others' rows, u's cluster of class 1 returns u's."""
    rows, masks, clusters, contributes, omega = federation(3, n=4, classes=2, have=1.0, select=1.0)
    clusters[:] = 0
    contributes[1:, 1] = False
    clusters[0, 0] = 9  # and in class 0 it is alone as well
    fused, replaced = run(fusion, rows, masks, clusters, contributes, omega, reading)
    np.testing.assert_allclose(integrated(rows, fused, replaced)[0], rows[0], rtol=1e-6)
    # The others, imputed into that cluster, do receive u's rows from it.
    clusters[:, 0], contributes[:, 0] = -1, False
    received, _ = run("overlapping-any", rows, masks, clusters, contributes, omega)
    np.testing.assert_allclose(received, np.broadcast_to(rows[0], rows.shape), rtol=1e-6)


@pytest.mark.parametrize(("fusion", "reading"), WAYS)
@given(round=rounds)
def test_imputed_members_contribute_nothing(fusion: str, reading: str, round: Round) -> None:
    """What stands in the cache of a class that a client lacks changes nobody's result."""
    rows, masks, clusters, contributes, omega = round
    fused, replaced = run(fusion, *round, reading)
    noisy, loud = masks | ~contributes[:, :, None], np.where(contributes, omega, 1e9)
    again, again_replaced = run(fusion, rows, noisy, clusters, contributes, loud, reading)
    assert (again == fused).all() and (again_replaced == replaced).all()


@pytest.mark.parametrize("reading", READINGS)
@given(seed=st.integers(0, 2**32 - 1))
def test_all_ones_masks_make_overlapping_equal_avg(reading: str, seed: int) -> None:
    rows, masks, clusters, contributes, omega = federation(seed, select=1.0, imputed=0.5)
    contributes[:, 0] = True  # a client without any class takes no part in overlapping
    clusters[:, 0] = np.maximum(clusters[:, 0], 0)
    masks = np.broadcast_to(contributes[:, :, None], masks.shape).copy()
    rows = np.random.default_rng(seed).normal(size=rows.shape).astype(np.float32)
    fused, replaced = run("overlapping", rows, masks, clusters, contributes, omega)
    expected, _ = run("avg", rows, masks, clusters, contributes, omega, reading)
    assert replaced.all()
    np.testing.assert_allclose(fused, expected, rtol=1e-5, atol=1e-6)


@given(round=rounds)
def test_overlapping_is_the_most_cautious(round: Round) -> None:
    """What overlapping replaces, -any replaces too, and avg replaces what -any does."""
    rows, masks, clusters, contributes, omega = round
    cached = (rows, masks, clusters, contributes, omega + 1)
    replaced = {f: run(f, *cached, "held")[1] for f in FUSIONS}
    assert (replaced["overlapping"] <= replaced["overlapping-additive"]).all()
    assert (replaced["overlapping-additive"] <= replaced["overlapping-any"]).all()
    assert (replaced["overlapping-any"] <= replaced["avg"]).all()


def test_overlapping_wants_a_unit_in_each_class_of_ones_own() -> None:
    """Also in one in which the person is in no cluster."""
    rows, masks, clusters, contributes, omega = federation(8, n=2, classes=2, have=1.0, select=1.0)
    clusters[:, 0], clusters[0, 1] = 0, -1
    for selected in (True, False):
        masks[0, 1] = selected
        replaced = run("overlapping", rows, masks, clusters, contributes, omega)[1]
        assert (replaced[0] == selected).all()


@pytest.mark.parametrize(("fusion", "reading"), WAYS)
def test_a_cluster_of_imputed_members_alone_gives_nothing(fusion: str, reading: str) -> None:
    rows, masks, clusters, contributes, omega = federation(6, n=3, classes=2, have=1.0, select=1.0)
    clusters[:], contributes[:, 1] = 0, False
    alone = run(fusion, rows, masks, clusters, contributes, omega, reading)
    clusters[:, 1] = -1
    without = run(fusion, rows, masks, clusters, contributes, omega, reading)
    assert (alone[0] == without[0]).all() and (alone[1] == without[1]).all()


@pytest.mark.parametrize(("fusion", "reading"), WAYS)
def test_chunks_of_units_change_nothing(
    fusion: str, reading: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    round = federation(7, n=6, units=17)
    whole = run(fusion, *round, reading)
    monkeypatch.setattr(fusion_module, "CHUNK_BYTES", 8 * 6 * 6 * 4)
    chunked = run(fusion, *round, reading)
    np.testing.assert_allclose(chunked[0], whole[0], rtol=1e-6, atol=1e-7)
    assert (chunked[1] == whole[1]).all()


@pytest.mark.parametrize(("fusion", "reading"), WAYS)
def test_the_inputs_are_untouched(fusion: str, reading: str) -> None:
    round = federation(8)
    copies = [a.copy() for a in round]
    run(fusion, *round, reading)
    assert all((a == b).all() for a, b in zip(round, copies, strict=True))
