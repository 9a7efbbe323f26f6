"""Mixing weights are non-negative least squares, and equations of people add up."""

import numpy as np
import pytest
from scipy.optimize import nnls

from fedsub_core.closed_form.grids import TEMPERATURES
from fedsub_core.closed_form.stacking import (
    log_losses,
    mixing_weights,
    normal_equations,
)


@pytest.mark.parametrize("seed", range(20))
def test_weights_are_those_of_scipy(seed: int) -> None:
    stream = np.random.default_rng(seed)
    candidates, rows = int(stream.integers(1, 40)), int(stream.integers(1, 120))
    truth = stream.normal(size=rows)
    said = truth + stream.normal(size=(candidates, rows)) * stream.uniform(0.1, 3, (candidates, 1))
    gram, target = normal_equations(said[:, :, None], truth[:, None])
    weights = mixing_weights(gram, target)
    assert (weights >= 0).all()
    expected, _ = nnls(said.T, truth)
    error = [((w @ said - truth) ** 2).sum() for w in (weights, expected)]
    assert error[0] <= error[1] * (1 + 1e-5) + 1e-5 * (truth**2).sum()


def test_equal_candidates_and_candidates_that_say_nothing() -> None:
    said = np.ones((3, 4, 2))
    weights = mixing_weights(*normal_equations(said, np.ones((4, 2))))
    assert weights.sum() == pytest.approx(1)
    assert not mixing_weights(*normal_equations(np.zeros((3, 4, 2)), np.ones((4, 2)))).any()
    assert not mixing_weights(*normal_equations(-said, np.ones((4, 2)))).any()


def test_losses_are_those_of_softmax() -> None:
    scores = np.array([[1.0, -1.0], [0.0, 0.5]])
    at_one = log_losses(scores, np.array([0, 0]))[list(TEMPERATURES).index(1.0)]
    expected = -np.log(np.exp([1.0, 0.0]) / np.exp(scores).sum(1)).sum()
    assert at_one == pytest.approx(expected)
