"""Fusions of so few numbers that a pencil is enough."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from strategies.fedsub.fusion import fuse
from strategies.fedsub.membership import cluster_weights

Array = NDArray[Any]


def run(fusion: str, rows: Array, masks: Array, omega: Array) -> tuple[Array, Array]:
    """One cluster of everybody, one class."""
    members = np.ones((len(rows), 1), bool)
    weights = cluster_weights(fusion, np.zeros((len(rows), 1), np.int64), members, omega)
    fused, replaced = fuse(weights, torch.from_numpy(rows), torch.from_numpy(masks))
    return fused.numpy(), replaced.numpy()


def test_avg_of_identical_masks_with_sample_counts_is_fedavg() -> None:
    rng = np.random.default_rng(4)
    rows = rng.normal(size=(4, 5, 3)).astype(np.float32)
    samples = np.array([[10.0], [30], [5], [55]])
    mask = np.array([True, True, False, True, True])
    masks = np.broadcast_to(mask, (4, 1, 5)).copy()
    rows[:, ~mask] = 0
    fused, replaced = run("avg", rows, masks, samples)
    expected = np.average(rows.astype(np.float64), axis=0, weights=samples[:, 0])
    assert (replaced == mask).all()
    for u in range(4):
        np.testing.assert_allclose(fused[u], expected, rtol=1e-5, atol=1e-6)


def test_the_five_fusions_by_hand() -> None:
    """Two clients, one cluster, two units; client 1 did not select unit 1. omega 1 : 3."""
    rows = np.array([[[1.0], [2.0]], [[5.0], [0.0]]], np.float32)
    masks = np.array([[[True, True]], [[True, False]]])
    args = (rows, masks, np.array([[1.0], [3]]))
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


def test_additive_turns_the_row_and_keeps_the_layers_norm() -> None:
    """Own row (3, 4) and a mean of (3.5, 2): direction of (6.5, 6), length 5."""
    rows = np.array([[[3.0, 4.0]], [[4.0, 0.0]]], np.float32)
    ones = np.ones((2, 1), bool)
    fused, _ = run("overlapping-additive", rows, ones[:, :, None], np.ones((2, 1)))
    length = math.hypot(6.5, 6)
    np.testing.assert_allclose(fused[0, 0], [5 * 6.5 / length, 5 * 6 / length], rtol=1e-6)
    assert np.linalg.norm(fused[1]) == pytest.approx(4, rel=1e-6)


def test_additive_keeps_rows_that_would_cancel_out_to_zero() -> None:
    """Own row 1 and a mean of -1: client 0 keeps its own; client 1 goes from -3 to -4 to -3."""
    rows = np.array([[[1.0]], [[-3.0]]], np.float32)
    masks = np.ones((2, 1, 1), bool)
    fused, replaced = run("overlapping-additive", rows, masks, np.ones((2, 1)))
    assert replaced.tolist() == [[False], [True]]
    assert fused.ravel().tolist() == [0.0, -3.0]
