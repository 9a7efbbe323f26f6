"""The forward filter of a hidden Markov model, by hand."""

import numpy as np

from fedsub.recordings.smoothing import ForwardFilter


def test_two_windows_by_hand() -> None:
    shares = np.array([[0.8, 0.2], [0.3, 0.7]], np.float32)
    found = ForwardFilter(2, stay_s=10.0).smoothed(shares, np.array([0.0, 5.0]))
    # A chain of two states that leaves each 0.1 times a second changes within 5 s with this share.
    leaves = 0.5 * (1 - np.exp(-2 * 5 / 10))
    prior = 0.8 * (1 - leaves) + 0.2 * leaves
    second = prior * 0.3 / (prior * 0.3 + (1 - prior) * 0.7)
    np.testing.assert_allclose(found[:, 0], [0.8, second], rtol=1e-5)


def test_a_single_other_window_is_passed_over_and_a_long_pause_forgets() -> None:
    shares = np.full((9, 3), 0.2, np.float32)
    shares[:, 0] = 0.6
    shares[4] = [0.3, 0.5, 0.2]
    begins = np.arange(9.0)
    assert shares.argmax(1).tolist() == [0, 0, 0, 0, 1, 0, 0, 0, 0]
    found = ForwardFilter(3, 10.0).smoothed(shares, begins)
    assert found.argmax(1).tolist() == [0] * 9
    np.testing.assert_allclose(found.sum(1), 1, rtol=1e-6)
    begins[4:] += 1e6
    assert ForwardFilter(3, 10.0).smoothed(shares, begins).argmax(1)[4] == 1


def test_windows_in_parts_are_smoothed_as_in_one() -> None:
    shares = np.random.default_rng(1).dirichlet(np.ones(4), 20).astype(np.float32)
    begins = np.arange(20.0)
    whole = ForwardFilter(4, 10.0, 0.5).smoothed(shares, begins)
    filter = ForwardFilter(4, 10.0, 0.5)
    parts = [filter.smoothed(shares[at : at + 7], begins[at : at + 7]) for at in (0, 7, 14)]
    np.testing.assert_array_equal(np.concatenate(parts), whole)
