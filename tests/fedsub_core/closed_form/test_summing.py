"""Whole numbers under secure sums: exact as long as they fit, close beyond."""

import numpy as np
import pytest

from fedsub_core.closed_form import summing
from fedsub_core.closed_form.grids import TEMPERATURES
from fedsub_core.closed_form.sending import Rounded
from fedsub_core.closed_form.sums import UNIT, Statistics, statistics, total
from fedsub_core.secure.quantise import Levels

FEATURES, CLASSES = 5, 3


def of_person(seed: int, n: int = 50) -> Statistics:
    stream = np.random.default_rng(seed)
    x = stream.integers(-128, 128, (n, FEATURES)) / UNIT
    return statistics(x, stream.integers(0, CLASSES, n), CLASSES)


@pytest.mark.parametrize(("weight", "off"), [(50, 0), (16_000, 0), (17_000, 4), (2**20, 256)])
def test_statistics_are_exact_as_long_as_31_bits_hold_them(weight: int, off: int) -> None:
    """Of four people who count 16,384 samples each and more, half a level of each is lost."""
    people = [Rounded.of(of_person(seed)) for seed in range(4)]
    levels = Levels.of_people(4, weight, 1.0)
    vectors = np.stack([summing.of_statistics(one, 50, levels) for one in people])
    said = Levels(summing.RANGE, levels.weight, levels.each).total(vectors.sum(0, np.uint32), 4)
    opened = summing.statistics_in(said, FEATURES, CLASSES, 3)
    expected = total([one.statistics() for one in people])
    for ours, theirs in ((opened.gram, expected.gram), (opened.cross, expected.cross)):
        assert np.abs(ours - theirs).max() <= off


@pytest.mark.parametrize(("at", "by"), [(1, 60.0), (3, 9.0)], ids=["products", "what is right"])
def test_equations_that_no_candidates_have_are_refused(at: int, by: float) -> None:
    """Weights of all people follow from everybody's: each square alone may be sound."""
    row = np.concatenate([[8.0, 3.0, 9.0, 3.0, 2.0], np.ones(len(TEMPERATURES))])
    levels = Levels(summing.range_of(summing.EQUATIONS, CLASSES), 10, 2**20)
    true = levels.vector(row, 4)
    summing.equations_in(levels.total(true, 3), 2, CLASSES, 3 * levels.range / levels.each / 2)
    row[at] += by
    with pytest.raises(ValueError, match="squares below 0 in some direction"):
        summing.equations_in(levels.total(levels.vector(row, 4), 3), 2, CLASSES, 1e-3)


def test_candidates_that_say_huge_numbers_are_shortened_as_a_whole() -> None:
    losses = len(TEMPERATURES)
    row = np.concatenate([[8.0, 60.0, 1200.0, 3.0, 40.0], np.arange(losses, dtype=float)])
    levels = Levels.of_people(3, 10, 1.0)
    vector = summing.of_equations(row, 2, CLASSES, 4, levels)
    most = summing.range_of(summing.EQUATIONS, CLASSES)
    said = Levels(most, levels.weight, levels.each).total(vector, 3)
    assert (most, said.weight, said.shortened) == (12.0, 4, 1)
    found = summing.equations_in(said, 2, CLASSES, 0.0)
    np.testing.assert_allclose(found[:5], row[:5] * 12 / 1200, atol=1e-6)
    np.testing.assert_allclose(found[5:], np.minimum(np.arange(losses), 3), atol=1e-6)
