"""Fusions of so few numbers that a pencil is enough."""

import math
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from fedsub_core.config.robust import RobustSettings
from fedsub_core.methods.fedsub import READINGS
from strategies.methods.fedsub.fusion import fuse
from strategies.methods.fedsub.membership import cluster_weights
from strategies.methods.fedsub.robust import row_mean

from .equations import READ

Array = NDArray[Any]
#: A unit that is not replaced.
KEPT = math.nan


def run(
    fusion: str, rows: Array, masks: Array, omega: Array, reading: str = READINGS[0]
) -> tuple[Array, Array]:
    """One cluster of everybody in every class, which all have."""
    clusters, all_have = np.zeros(omega.shape, np.int64), np.ones(omega.shape, bool)
    weights = cluster_weights(fusion, clusters, all_have, omega, reading)
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
        ("avg", [[4, 2], [4, 2]], [[True, True]] * 2),
        ("leadership", [[5, 0], [5, 0]], only_first),
        ("overlapping", [[4, 0], [4, 0]], only_first),
        ("overlapping-any", [[4, 0], [4, 0]], only_first),
        ("overlapping-additive", [[1, 0], [5, 0]], only_first),
    ):
        fused, replaced = run(fusion, *args, reading="held")
        assert replaced.tolist() == where, fusion
        np.testing.assert_allclose(fused[:, :, 0], values, rtol=1e-6, err_msg=fusion)


#: Of units 0 to 3 of both clients, after each fusion in each reading.
BY_HAND: dict[tuple[str, str], list[list[float]]] = {
    # Class 0: unit 1 is (8 + 3 * 4) / 4 = 5 and unit 3 (2 + 3 * 10) / 4 = 8. Class 1: unit 1 is 4,
    # unit 2 6, unit 3 2.
    ("avg", "held"): [[7, 4.5, 6, 5]] * 2,
    # Client 0's own 8 for unit 1 in class 1, client 1's own 10 for unit 3, and it had no unit 2.
    ("avg", "own"): [[7, 6.5, 6, 5], [7, 4.5, KEPT, 9]],
    # Client 1 leads: it never has unit 2, and unit 3 in class 0 alone.
    ("leadership", "held"): [[8, 4, KEPT, 10]] * 2,
    # Client 0: (4 + 8) / 2, and (10 + 2) / 2, as the leader has no unit 3 in class 1.
    ("leadership", "own"): [[8, 6, KEPT, 6], [8, 4, KEPT, 10]],
}


@pytest.mark.parametrize(("fusion", "reading"), BY_HAND)
def test_the_readings_by_hand(fusion: str, reading: str) -> None:
    """Two clients, together in each of two classes, four units; omega 1 : 3.

    Unit 0 (4 and 8) both selected for both classes. Unit 1 (8 and 4): client 0 for class 0,
    client 1 for both. Unit 2 (6): client 0 for class 1. Unit 3 (2 and 10): client 0 for both,
    client 1 for class 0.
    """
    rows = np.array([[4.0, 8, 6, 2], [8, 4, 0, 10]], np.float32)[:, :, None]
    masks = np.array([[[1, 1, 0, 1], [1, 0, 1, 1]], [[1, 1, 0, 1], [1, 1, 0, 0]]], bool)
    fused, replaced = run(fusion, rows, masks, np.array([[1.0, 1], [3, 3]]), reading)
    expected = np.array(BY_HAND[fusion, reading])
    assert (replaced == ~np.isnan(expected)).all()
    assert fused[:, :, 0].tolist() == np.nan_to_num(expected).tolist()


def test_every_reading_is_worked_out() -> None:
    assert set(BY_HAND) == {(f, r) for f in READ for r in READINGS}


@pytest.mark.parametrize("reading", READINGS)
def test_the_median_is_that_of_holders_alone(reading: str) -> None:
    """Three of five selected unit 1: the median of 3, 4, 50."""
    unit = 4
    rows = torch.tensor([[1.0, 3], [2, 4], [3, 50], [4, 0], [9, 0]])[:, :, None]
    masks, ones = (rows > 0).permute(0, 2, 1), np.ones((5, 1))
    weights = cluster_weights("avg", np.zeros((5, 1), np.int64), ones > 0, ones, reading)
    median = row_mean(RobustSettings.parse("median", 0.2))
    fused, replaced = fuse(weights, rows, masks, median)
    others = [3, 0] if reading == "own" else [3, unit]
    assert fused[:, :, 0].tolist() == [[3, unit]] * 3 + [others] * 2
    assert replaced.tolist() == [[True, True]] * 3 + [[True, reading != "own"]] * 2


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
