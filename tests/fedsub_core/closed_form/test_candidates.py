"""Heads are ridge heads, and what they say of left-out samples is what a new fit says."""

import numpy as np
import pytest
from sklearn.linear_model import Ridge

from fedsub_core.closed_form.candidates import Candidates, Shared, Span, alone, with_others
from fedsub_core.closed_form.grids import OWN_WEIGHTS, PENALTIES, WITH_OTHERS
from fedsub_core.closed_form.left_out import Blocks
from fedsub_core.closed_form.scale import Samples, Scale
from fedsub_core.closed_form.sending import Rounded
from fedsub_core.closed_form.sums import UNIT, one_hot, statistics, total

CLASSES = 3


def _people(features: int, samples: int = 12) -> list[tuple[np.ndarray, np.ndarray]]:
    stream = np.random.default_rng(features)
    people = []
    for person in range(4):
        y = stream.integers(0, CLASSES, samples)
        mean = stream.normal(0, 30, (CLASSES, features)) + 5 * person
        x = np.clip(np.rint(mean[y] + stream.normal(0, 30, (samples, features))), -UNIT, UNIT - 1)
        people.append((x / UNIT, y))
    return people


def _fit(z: np.ndarray, targets: np.ndarray, penalty: float, weights: np.ndarray) -> np.ndarray:
    """Return scikit-learn's ridge head, the constant penalised like every feature."""
    model = Ridge(alpha=penalty, fit_intercept=False, solver="cholesky")
    return np.asarray(model.fit(z, targets, sample_weight=weights).coef_).T


def _one(candidates: Candidates, k: int, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return candidates.head(np.eye(len(candidates.said))[k], Samples(x))


#: Fewer features than own samples, than everybody's, as many as these (fits are worst), and more.
@pytest.mark.parametrize("features", [3, 8, 47, 80])
@pytest.mark.parametrize("stretches", [12, 2])
def test_they_are_the_heads_of_new_fits(features: int, stretches: int) -> None:
    people = _people(features)
    x, y = people[0]
    targets = 2 * one_hot(y, CLASSES) - 1
    sums = total([statistics(*one, CLASSES) for one in people])
    shared = Shared(Scale.of(sums), sums)
    blocks = Blocks.of(y, stretches)
    span = Span.of(Samples(x), shared.scale)
    own, both = alone(span, targets, blocks), with_others(span, targets, shared, blocks)
    everything = np.concatenate([shared.scale(one[0]) for one in people])
    labels = np.concatenate([2 * one_hot(one[1], CLASSES) - 1 for one in people])
    mine = np.arange(len(everything)) < len(x)
    for j, penalty in enumerate(PENALTIES):
        _holds(own, j, blocks, x, shared.scale, everything[mine], labels[mine], penalty, 1.0)
    for j, penalty in enumerate(WITH_OTHERS):
        for i, weight in enumerate(OWN_WEIGHTS):
            k = j * len(OWN_WEIGHTS) + i
            _holds(both, k, blocks, x, shared.scale, everything, labels, penalty, weight)


def _holds(
    found: Candidates,
    k: int,
    blocks: Blocks,
    x: np.ndarray,
    scale: Scale,
    z: np.ndarray,
    targets: np.ndarray,
    penalty: float,
    own_weight: float,
) -> None:
    weights = np.where(np.arange(len(z)) < len(x), own_weight, 1.0)
    weight, bias = _one(found, k, x)
    expected = scale(x) @ _fit(z, targets, penalty, weights)
    np.testing.assert_allclose(x @ weight.T + bias, expected, atol=1e-6)
    for block in blocks.samples[[0, -1]]:
        left = block[block >= 0]
        kept = ~np.isin(np.arange(len(z)), left)
        without = _fit(z[kept], targets[kept], penalty, weights[kept])
        np.testing.assert_allclose(found.said[k, left], z[left] @ without, atol=1e-6)


def test_on_rounded_sums_they_are_heads_of_these_sums() -> None:
    """Of features that follow from few, own samples may have more in a direction than all have."""
    stream = np.random.default_rng(5)
    turned = stream.normal(size=(3, 120))
    people = []
    for person in range(4):
        y = stream.integers(0, CLASSES, 1500)
        z = (stream.normal(size=(1500, 3)) + np.eye(CLASSES)[y]) / (1 + (person > 0))
        people.append((np.rint(UNIT * np.tanh(z @ turned / 2)) / (UNIT + 1), y))
    sums = total([Rounded.of(statistics(*one, CLASSES)).statistics() for one in people])
    shared, (x, y) = Shared(Scale.of(sums), sums), people[0]
    targets, rows = 2 * one_hot(y, CLASSES) - 1, shared.scale(x)
    span = Span.of(Samples(x), shared.scale)
    found = with_others(span, targets, shared, Blocks.of(y))
    values, vectors, b = shared.solved
    a, b = vectors @ (values[:, None] * vectors.T), vectors @ b
    for j, penalty in enumerate(WITH_OTHERS):
        for i, more in enumerate(np.array(OWN_WEIGHTS) - 1):
            weight, bias = _one(found, j * len(OWN_WEIGHTS) + i, x)
            whole = a + more * rows.T @ rows + penalty * np.eye(len(a))
            expected = rows @ np.linalg.solve(whole, b + more * rows.T @ targets)
            np.testing.assert_allclose(x @ weight.T + bias, expected, atol=1e-6)


def test_whole_sums_give_the_heads_of_plain_ones() -> None:
    people = _people(20)
    z_sums = total([statistics(*one, CLASSES) for one in people])
    scale = Scale.of(z_sums)
    x, y = (np.concatenate(part) for part in zip(*people, strict=True))
    np.testing.assert_allclose(scale.mean, x.mean(0), atol=1e-12)
    np.testing.assert_allclose(scale.deviation, x.std(0), atol=1e-12)
    a, b = scale.moments(z_sums)
    z = scale(x)
    np.testing.assert_allclose(a, z.T @ z, atol=1e-6)
    np.testing.assert_allclose(b, z.T @ (2 * one_hot(y, CLASSES) - 1), atol=1e-6)


def test_a_constant_feature_stays_small() -> None:
    x, y = _people(6)[0]
    x = np.column_stack([x, np.full(len(x), 0.5)])
    sums = statistics(x, y, CLASSES)
    assert np.abs(Scale.of(sums)(x)[:, 6]).max() < 1e-9
    span = Span.of(Samples(x), Scale.of(sums))
    found = alone(span, 2 * one_hot(y, CLASSES) - 1, Blocks.of(y))
    assert np.isfinite(_one(found, 0, x)[0]).all()


def test_means_of_features_are_those_of_their_sums() -> None:
    x, y = _people(30)[0]
    expected = Scale.of(statistics(x, y, CLASSES)).mean
    np.testing.assert_array_equal(Scale.centred(x).mean, expected)


def test_blocks_are_stretches_of_a_class() -> None:
    y = np.array([0, 0, 1, 0, 1, 0, 0, 2])
    rows = [sorted(row[row >= 0].tolist()) for row in Blocks.of(y, 2).samples]
    assert rows == [[0, 1, 3], [5, 6], [2], [4], [7]]
    assert Blocks.of(y, 8).samples.shape == (8, 1)
    assert Blocks.of(y[:0]).samples.size == 0
