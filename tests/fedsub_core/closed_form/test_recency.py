"""Older samples count less: sums with a factor are weighted sums, and so are heads of them."""

from functools import partial

import numpy as np
import pytest
from sklearn.linear_model import Ridge

from fedsub_core.closed_form.candidates import Shared, Span, alone, with_others
from fedsub_core.closed_form.grids import OWN_WEIGHTS, PENALTIES, WITH_OTHERS
from fedsub_core.closed_form.left_out import Blocks
from fedsub_core.closed_form.personal import personal_head
from fedsub_core.closed_form.scale import Samples, Scale, counted
from fedsub_core.closed_form.sending import Rounded
from fedsub_core.closed_form.sums import UNIT, levels, one_hot, recency, statistics, total
from fedsub_core.errors import MessageRefused
from fedsub_core.method_parts.ridge_tensors import CROSS, GRAM, SHIFTS
from fedsub_core.wire.bundles import Bundle, Floats, Part, Whole
from strategies.methods.fedsub_ridge.checks import check_sums

CLASSES, FEATURES = 3, 5


def samples(seed: int, n: int) -> tuple[np.ndarray, np.ndarray]:
    stream = np.random.default_rng(seed)
    y = stream.integers(0, CLASSES, n)
    x = stream.normal(0, 25, (n, FEATURES)) + 15 * stream.normal(size=(CLASSES, FEATURES))[y]
    return np.clip(np.rint(x), -UNIT, UNIT - 1) / UNIT, y


def test_sums_fade_by_the_factor_with_each_new_sample_of_a_class() -> None:
    (x, y), factor = samples(1, 40), 0.9
    faded = np.zeros((CLASSES, FEATURES + 1, FEATURES + 1)), np.zeros((CLASSES, FEATURES + 1))
    for one, label in zip(levels(x), y, strict=True):
        for sums, new in zip(faded, (np.outer(one, one), one), strict=True):
            sums[label] = factor * sums[label] + new
    whole = np.floor(faded[1][:, 0] / UNIT + 1e-9) / (faded[1][:, 0] / UNIT)  # of each class
    found = statistics(x, y, CLASSES, recency(y, factor))
    expected = (whole[:, None, None] * faded[0]).sum(0)
    # Rounded are sums and products about means, so products about zero by a mean's half at most.
    np.testing.assert_allclose(found.square * UNIT**2, expected, atol=UNIT + 1)
    np.testing.assert_allclose(found.cross, whole[:, None] * faded[1], atol=0.5 + 1e-6)
    assert (found.cross[:, 0] % UNIT == 0).all()


@pytest.mark.parametrize("factor", [0.2, 0.9, 0.999])
def test_each_class_counts_as_whole_samples_and_none_more_than_once(factor: float) -> None:
    _, y = samples(2, 60)
    weights = recency(y, factor)
    for label in range(CLASSES):
        own = weights[y == label]
        assert own.sum() == pytest.approx(round(own.sum())) and own.sum() >= 1
        assert (np.diff(own) > 0).all() and own.max() <= 1
        np.testing.assert_allclose(own[:-1] / own[1:], factor)


@pytest.mark.parametrize("factor", [0.5, 0.95, 0.99])
def test_what_travels_of_them_is_what_samples_could_lead_to(factor: float) -> None:
    """Rounded sums of features that hardly vary would say of them what none could."""
    stream = np.random.default_rng(8)
    for samples in (1, 2, 7, 60):
        y = stream.integers(0, CLASSES, samples)
        x = np.rint(stream.normal(100, 0.4, (samples, 80)).clip(-128, 127)) / UNIT
        sums = statistics(x, y, CLASSES, recency(y, factor))
        sent = Rounded.of(sums)
        tensors: dict[str, Part] = {GRAM: Whole(sent.gram), CROSS: Whole(sent.cross)}
        tensors[SHIFTS] = Floats(sent.shifts.astype(np.float32))
        count = int(sums.counts.sum())
        check_sums(Bundle(count, 1, tensors), partial(MessageRefused, "p", 1))


def test_a_factor_of_one_counts_all_once() -> None:
    _, y = samples(3, 200)
    np.testing.assert_array_equal(recency(y, 1.0), np.ones(200))


@pytest.mark.parametrize("n", [4, 30])
def test_heads_and_what_they_say_of_samples_left_out_are_those_of_weighted_fits(n: int) -> None:
    people = [samples(seed, n) for seed in (4, 5, 6)]
    weighs = [recency(y, 0.9) for _, y in people]
    sums = total([statistics(x, y, CLASSES, w) for (x, y), w in zip(people, weighs, strict=True)])
    shared = Shared(Scale.of(sums), sums)
    (x, y), root = people[0], np.sqrt(weighs[0])
    targets, blocks = counted(2 * one_hot(y, CLASSES) - 1, root), Blocks.of(y)
    span = Span.of(Samples(x, root), shared.scale)
    z = shared.scale(np.concatenate([one for one, _ in people]))
    labels = np.concatenate([2 * one_hot(one, CLASSES) - 1 for _, one in people])
    mine, weights = np.arange(len(z)) < n, np.concatenate(weighs)
    own, both = alone(span, targets, blocks), with_others(span, targets, shared, blocks)
    cases = [(own, 2, PENALTIES[2], weights * mine)]
    cases.append((both, len(OWN_WEIGHTS) + 1, WITH_OTHERS[1], weights * np.where(mine, 5.0, 1.0)))
    left = blocks.samples[0][blocks.samples[0] >= 0]
    for candidates, k, penalty, weighed in cases:
        weight, bias = candidates.head(np.eye(len(candidates.said))[k], Samples(x, root))
        # Sums are rounded to whole numbers.
        np.testing.assert_allclose(
            x @ weight.T + bias, shared.scale(x) @ fit(z, labels, penalty, weighed), atol=5e-3
        )
        without = np.where(np.isin(np.arange(len(z)), left), 0, weighed)
        said = candidates.said[k, left] / root[left, None]
        np.testing.assert_allclose(said, z[left] @ fit(z, labels, penalty, without), atol=5e-3)


def fit(z: np.ndarray, targets: np.ndarray, penalty: float, weights: np.ndarray) -> np.ndarray:
    model = Ridge(alpha=penalty, fit_intercept=False, solver="cholesky")
    return np.asarray(model.fit(z, targets, sample_weight=weights).coef_).T


def test_samples_that_all_count_alike_give_the_head_of_samples_that_count_once() -> None:
    x, y = samples(7, 30)
    sums = statistics(x, y, CLASSES)
    shared = Shared(Scale.of(sums), sums)
    plain = personal_head(x, y, CLASSES, [shared])
    ones = personal_head(x, y, CLASSES, [shared], weights=np.ones(30))
    np.testing.assert_allclose(ones.weight, plain.weight, rtol=1e-9)
    np.testing.assert_allclose(ones.equations.losses, plain.equations.losses, rtol=1e-9)
    assert ones.equations.samples == plain.equations.samples == 30
