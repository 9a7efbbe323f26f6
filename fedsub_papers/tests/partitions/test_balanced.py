"""Clients of one size with a class prior each, at its extremes and on real pictures."""

import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from fedsub_core.data.federation import Card, ClientData, Federation
from fedsub_core.errors import DataError
from fedsub_data.partitions.label_skew import label_divergence
from fedsub_data.partitions.partitions import counted_partition
from fedsub_data.preparing.preparation import Counts
from fedsub_papers.partitions.balanced import BalancedOptions, _filled, balanced
from fedsub_papers.tests import shapes


def people(sizes: Sequence[int]) -> Federation:
    """Two people who share the samples of classes of these sizes; x is the sample's number."""
    card = Card("toy", "test", tuple("abcdefgh"[: max(2, len(sizes))]), ("number",))
    y = np.repeat(np.arange(len(sizes)), sizes)
    x = np.arange(len(y), dtype=np.float32)[:, None]
    halves = {"1": slice(0, None, 2), "2": slice(1, None, 2)}
    return Federation(card, {n: ClientData(n, x[part], y[part]) for n, part in halves.items()})


def shares(clients: dict[str, ClientData], classes: int) -> NDArray[np.float64]:
    table = np.array([np.bincount(data.y, minlength=classes) for data in clients.values()])
    return np.asarray(table / table.sum(axis=1, keepdims=True))


@given(
    st.lists(st.integers(0, 60), min_size=2, max_size=8).filter(lambda s: sum(s) >= 24),
    st.integers(1, 6),
    st.sampled_from([0.001, 0.01, 0.3, 1.0, 1e6]),
    st.integers(0, 99),
)
def test_all_are_of_one_size_and_nobody_has_another_s_sample(
    sizes: list[int], clients: int, alpha: float, seed: int
) -> None:
    made = balanced(people(sizes), BalancedOptions(clients, alpha), seed, Counts())
    each = sum(sizes) // clients
    assert [len(data.y) for data in made.values()] == [each] * clients
    numbers = [int(i) for data in made.values() for i in data.x[:, 0]]
    assert len(set(numbers)) == len(numbers) and max(numbers) < sum(sizes)


def test_many_alike_with_a_large_alpha_few_classes_with_a_small_one() -> None:
    federation, classes = people([5000] * 6), 6
    alike = shares(balanced(federation, BalancedOptions(20, 1e6), 0, Counts()), classes)
    np.testing.assert_allclose(alike, 1 / classes, atol=0.05)
    # Of Dir(0.01) the largest share is nearly all; who comes last gets what is left.
    few = shares(balanced(federation, BalancedOptions(20, 0.01), 0, Counts()), classes)
    assert np.median(few.max(axis=1)) > 0.7


def test_shares_are_those_of_the_prior_while_classes_last() -> None:
    # One client takes a hundredth of the samples: nothing runs out, its shares are a draw's.
    made = balanced(people([100_000] * 2), BalancedOptions(100, 1.0), 3, Counts())
    table = shares(made, 2)
    # Dir(1, 1) is uniform: mean 1/2, variance 1/12.
    assert abs(table[:, 0].mean() - 0.5) < 0.01, "all samples are placed"
    assert 0.05 < table[:, 0].var() < 0.12


def test_who_s_prior_has_run_out_gets_what_is_left() -> None:
    priors, sizes = np.array([[1.0, 0.0], [0.25, 0.75], [0.0, 1.0]]), np.array([7, 2])
    places = np.array([2, 2, 2, 1, 1, 1, 0, 0, 0])
    table, outside = _filled(priors, sizes, places, np.full(9, 0.9))
    # The third takes both of class 1 and one of class 0; the second's 0.75 is gone, too.
    assert table.tolist() == [[3, 0], [3, 0], [1, 2]] and outside == 1


def test_it_ends_where_hardly_any_prior_has_samples() -> None:
    start = time.monotonic()
    made = balanced(people([20_000, 10]), BalancedOptions(10, 0.001), 1, Counts())
    assert time.monotonic() - start < 5
    assert sum(len(data.y) for data in made.values()) == 20_010


def test_too_many_clients_are_refused() -> None:
    with pytest.raises(DataError, match=r"13 clients of at least 2 samples need 26; got 25 samp"):
        balanced(people([20, 5]), BalancedOptions(13, 0.3), 0, Counts())


def test_real_digits_and_what_is_said_of_them(real_data: Path) -> None:
    digits = shapes.digits(real_data, people=10, each=60)
    made = counted_partition(digits, "dirichlet-balanced", BalancedOptions(20, 0.3), 0)
    samples = sum(len(data.y) for data in digits.clients.values())
    assert made.counts["samples of a client: fewest"] == samples // 20
    assert made.counts["samples of a client: most"] == samples // 20
    assert made.counts["samples left out"] == samples % 20
    assert made.counts["classes of a client: fewest"] < made.counts["classes of a client: most"]
    assert label_divergence(made.federation) > 0.5
