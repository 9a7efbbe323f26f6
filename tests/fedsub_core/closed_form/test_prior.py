"""What is believed before a person's own samples speak: everybody's equations and a default."""

import numpy as np
import pytest

from fedsub_core.closed_form.grids import ALONE, ON_EACH, OWN_WEIGHTS, TEMPERATURES
from fedsub_core.closed_form.mixture import FEW, TOLERATED, LeftOut
from fedsub_core.closed_form.prior import AMONG_ALL, BEFORE, DOUBTED, Prior, admitted
from fedsub_core.closed_form.stacking import Equations
from fedsub_core.closed_form.sums import one_hot

FLAT = np.zeros(len(TEMPERATURES))
K = ALONE // 2
ALIKE = np.ones((K, K))


def test_everybodys_equations_and_the_default_count_as_so_many_samples() -> None:
    everybody = Equations(1000, 500 * np.eye(K), np.zeros(K), FLAT + 1000)
    one = Prior(300, everybody, 970.0).of(ALIKE, "mixed")
    share = AMONG_ALL / 1000
    assert one.samples == pytest.approx(300)
    np.testing.assert_allclose(one.gram, 300 * ((1 - share) * 0.5 * np.eye(K) + share))
    np.testing.assert_allclose(one.target, 300 * share)
    assert one.losses.argmin() == TEMPERATURES.index(4.0)


def test_equations_are_held_against_the_samples_that_they_are_of_and_not_against_one() -> None:
    a_sample = Equations(1.0, 0.5 * np.eye(K), np.zeros(K), FLAT)
    few, many = (Prior(300, a_sample, n).of(ALIKE, "mixed") for n in (30.0, 30_000.0))
    assert few.target[0] == pytest.approx(150) and many.target[0] < 1


def test_the_default_alone_counts_as_few_samples() -> None:
    one = Prior().of(np.eye(K), "mixed")
    assert one.samples == BEFORE
    found = np.linalg.solve(one.gram, one.target)
    np.testing.assert_allclose(found, Prior().default(K, "mixed"))


def test_candidates_on_noisy_sums_are_doubted_and_own_ones_are_the_default() -> None:
    gram = np.eye(ALONE + ON_EACH)
    one = Prior(noisy=True).of(gram, "mixed")
    diagonal = one.gram.diagonal()
    assert (diagonal[:K] == BEFORE).all() and (diagonal[K:] == BEFORE + DOUBTED).all()
    assert set(np.flatnonzero(one.target)) < set(range(K))
    every = Prior(noisy=True).of(gram, "everybody"), Prior().of(gram, "everybody")
    np.testing.assert_array_equal(every[0].target, every[1].target)


@pytest.mark.parametrize("heads", ["mixed", "own", "everybody"])
@pytest.mark.parametrize("candidates", [ALONE // 2, ALONE + ON_EACH, ALONE + 2 * ON_EACH])
def test_the_default_is_a_mixture_of_what_may_be_mixed(heads: str, candidates: int) -> None:
    weights = Prior().default(candidates, heads)
    assert weights.sum() == 1
    assert set(np.flatnonzero(weights)) <= set(admitted(candidates, heads))
    if candidates > ALONE:
        of_own = np.flatnonzero(weights) < ALONE
        assert of_own.all() if heads == "own" else not of_own.any()
        own_weight = {OWN_WEIGHTS[(i - ALONE) % len(OWN_WEIGHTS)] for i in np.flatnonzero(weights)}
        assert heads == "own" or own_weight == {100.0 if heads == "mixed" else 1.0}


def test_a_classs_only_sample_says_nothing_of_candidates() -> None:
    y = np.array([0, 0, 1, 1, 2])
    targets = 2.0 * one_hot(y, 3) - 1
    said = np.stack([targets, *[-targets] * (ALONE // 2 - 1)])
    said[:, 4] *= -1
    known, closed = np.array([True, True, True, True, False]), np.zeros(3)
    weights, _, own = LeftOut(y, targets, known, None).mixture(said, "mixed", Prior(), closed)
    assert own.samples == 5
    assert own.gram[0, 0] == own.target[0] == -own.target[1] == 4 * 3, "of 4 samples, 3 classes"
    assert weights[0] > 0
    nothing = LeftOut(y, targets, np.zeros(5, np.bool_), None)
    weights, _, own = nothing.mixture(said, "mixed", Prior(), closed)
    np.testing.assert_array_equal(own.losses, FLAT)
    assert np.isfinite(weights).all()


def test_of_temperatures_that_are_as_good_the_calmest_is_taken() -> None:
    """Samples that are told apart with ease are so at any temperature."""
    y = np.repeat(np.arange(3), 40)
    targets = 2.0 * one_hot(y, 3) - 1
    said = np.stack([targets] * K)
    known, closed = np.ones(len(y), np.bool_), np.zeros(3)
    _, calm, own = LeftOut(y, targets, known, None).mixture(said, "mixed", Prior(), closed)
    at = TEMPERATURES.index(calm)
    more = (own.losses - own.losses.min()) / len(y)
    assert at < own.losses.argmin()
    assert more[at] <= TOLERATED * 120 / (120 + FEW) < more[at - 1]
