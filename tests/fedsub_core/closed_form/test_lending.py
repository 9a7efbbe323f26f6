"""A class that a person has no sample of is answered by the odds that the person does it."""

import numpy as np
import pytest

from fedsub_core.closed_form.candidates import Shared
from fedsub_core.closed_form.lending import CLOSED, FORGOT, Holders
from fedsub_core.closed_form.personal import Mixing, personal_head
from fedsub_core.closed_form.scale import Scale
from fedsub_core.closed_form.sums import statistics, total

COUNTS = np.array([60.0, 30.0, 10.0, 0.0])
HOLDERS = Holders(np.array([10.0, 5.0, 2.0, 0.0]), 10)


def test_odds_are_bayes_rule() -> None:
    of_third = 10 / (0.2 * 100)  # the class's share at those who have it
    expected = 0.2 * (FORGOT + (1 - FORGOT) * (1 - of_third) ** 3) / 0.8
    assert HOLDERS.odds(COUNTS, 3)[2] == pytest.approx(np.log(expected))


def test_odds_fall_with_samples_and_never_raise_a_score() -> None:
    few, some, many = (HOLDERS.odds(COUNTS, n) for n in (0, 3, 10_000))
    assert few[0] == many[0] == 0, "everybody does the class"
    assert few[2] > some[2] > many[2] == pytest.approx(np.log(0.25 * FORGOT))
    assert many[3] == -CLOSED, "nobody does it"
    assert (np.stack([few, some, many]) <= 0).all()


@pytest.mark.parametrize(
    "row", [[1, 1, 0], [-1, 0, 3], [1, 4, 3], [np.nan, 0, 3], [1, 1, np.inf], [1, 1, np.nan]]
)
def test_counts_that_no_people_have_are_not_sound(row: list[float]) -> None:
    assert not Holders.of(np.array(row, np.float32)).sound
    assert Holders.of(np.array([1, 3, 3], np.float32)).sound


def test_a_head_says_a_rare_class_as_seldom_as_odds_have_it() -> None:
    stream = np.random.default_rng(3)
    x = np.rint(stream.normal(0, 30, (60, 20))) / 128
    y = np.repeat(np.arange(4), 15)
    sums = total([statistics(x, y, 4)])
    own, sets = y < 2, [Shared(Scale.of(sums), sums)]
    plain = personal_head(x[own], y[own], 4, sets)
    holders = Holders(np.array([5.0, 5.0, 1.0, 5.0]), 5)
    by_odds = personal_head(x[own], y[own], 4, sets, how=Mixing(holders=holders))
    moved = by_odds.bias - plain.bias
    assert moved[2] < moved[3] - 0.5, "both are lent, and all others have class 3"
