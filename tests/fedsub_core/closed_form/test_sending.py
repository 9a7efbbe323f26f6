"""What statistics travel as: 16 bits a number up, float32 down, and what is left of them."""

import numpy as np
import pytest

from fedsub_core.closed_form.candidates import Shared
from fedsub_core.closed_form.grids import packed
from fedsub_core.closed_form.personal import personal_head
from fedsub_core.closed_form.scale import Scale
from fedsub_core.closed_form.sending import Portable, Rounded, flat, unflat
from fedsub_core.closed_form.stacking import Equations
from fedsub_core.closed_form.sums import GREATEST, UNIT, Statistics, statistics, total, triangle

CLASSES, FEATURES = 3, 20


def _person(seed: int, samples: int = 60) -> tuple[np.ndarray, np.ndarray]:
    stream = np.random.default_rng(seed)
    y = np.arange(samples) % CLASSES
    centres = np.random.default_rng(9).normal(0, 30, (CLASSES, FEATURES))
    x = np.rint(centres[y] + stream.normal(0, 30, (samples, FEATURES)))
    return np.clip(x, -UNIT, UNIT - 1).astype(np.float32) / np.float32(UNIT), y


def _statistics(seed: int, samples: int = 60) -> Statistics:
    return statistics(*_person(seed, samples), CLASSES)


@pytest.mark.parametrize("samples", [1, 20, 255])
def test_rounding_moves_no_number_by_more_than_it_is_said_to(samples: int) -> None:
    """What docs/privacy.md says that noise on sums leaves out, for up to 255 samples of a class."""
    stream = np.random.default_rng(samples)
    x = np.where(stream.random((samples, 40)) < stream.random(40), 127, -128) / UNIT
    exact = statistics(x, np.zeros(samples, np.int64), 2)
    sent = Rounded.of(exact).statistics()
    np.testing.assert_array_equal(sent.cross, exact.cross)
    moved = np.abs(sent.gram - exact.gram).max() / UNIT**2
    assert moved <= 2 * samples / GREATEST
    assert (moved > 0) == (samples > 1)


def test_rounded_numbers_are_off_by_half_a_step_at_most() -> None:
    exact = _statistics(0)
    sent = Rounded.of(exact)
    assert sent.gram.dtype == sent.cross.dtype == np.int16
    came = sent.statistics()
    np.testing.assert_array_equal(came.cross, exact.cross)
    rows, columns, _ = triangle(FEATURES + 1)
    of_two = sent.shifts[1:][rows] + sent.shifts[1:][columns]
    assert (np.abs(came.gram - exact.gram) <= 2.0 ** (of_two - 1)).all()
    np.testing.assert_array_equal(came.gram[columns == 0], exact.gram[columns == 0])


def test_a_feature_that_hardly_varies_keeps_its_digits() -> None:
    """Beside one that varies a hundred times as much, and far from 0."""
    stream = np.random.default_rng(0)
    levels = np.stack([stream.integers(-128, 128, 200), stream.integers(119, 122, 200)], 1)
    x, y = (levels / UNIT).astype(np.float32), np.zeros(200, np.int64)
    exact = statistics(x, y, 1)
    sent = Rounded.of(exact)
    assert sent.shifts.tolist() == [0, 0, 3, 0], "200 * 74**2 fits after 6 halvings"
    came = sent.statistics()
    assert came.gram[-1] == exact.gram[-1]
    assert 0 < abs(came.gram[-2] - exact.gram[-2]) <= 2**2


def test_rounding_changes_predictions_by_less_than_a_thousandth() -> None:
    people = [_person(seed) for seed in range(8)]
    exact = [statistics(x, y, CLASSES) for x, y in people]
    sent = Portable.of(total([Rounded.of(one).statistics() for one in exact])).sums()
    for x, y in people:
        said = []
        for sums in (total(exact), sent):
            head = personal_head(x, y, CLASSES, [Shared(Scale.of(sums), sums)])
            scores = np.exp(x @ head.weight.T + head.bias)
            said.append(scores / scores.sum(1, keepdims=True))
        assert np.abs(said[0] - said[1]).max() < 1e-3


@pytest.mark.parametrize(("samples", "counts_as", "part"), [(60, 60, 1.0), (60, 90, 1.0)])
def test_who_has_no_more_than_counts_counts_fully(
    samples: int, counts_as: int, part: float
) -> None:
    sent = Rounded.of(_statistics(1, samples))
    np.testing.assert_array_equal(sent.counted(samples, counts_as).gram, sent.statistics().gram)


def test_who_has_more_counts_as_fewer_in_whole_numbers() -> None:
    sent = Rounded.of(_statistics(1))
    whole, less = sent.statistics(), sent.counted(60, 20)
    np.testing.assert_array_equal(less.gram, np.floor(whole.gram * (20 / 60)))
    assert less.cross[:, 0].sum() / UNIT == pytest.approx(20, abs=CLASSES / UNIT)


def test_sums_come_back_to_24_bits_whatever_their_size() -> None:
    for factor in (1, 10**6):
        sums = Statistics(*(one * factor for one in vars(_statistics(2)).values()))
        sent = Portable.of(sums)
        assert max(np.abs(sent.gram).max(), np.abs(sent.cross).max()) <= 1
        back = sent.sums()
        assert np.abs(back.gram - sums.gram).max() <= 2.0**-24 * np.abs(sums.gram).max()
        np.testing.assert_allclose(back.cross, sums.cross, rtol=2.0**-23)


def test_small_sums_come_back_exactly() -> None:
    sums = _statistics(3)
    back = Portable.of(sums).sums()
    np.testing.assert_array_equal(back.gram, sums.gram)
    np.testing.assert_array_equal(back.cross, sums.cross)


def test_equations_in_a_row_come_back() -> None:
    gram = np.array([[4.0, 1.0], [1.0, 9.0]])
    row = flat(Equations(5.0, gram, np.array([2.0, 3.0]), np.array([7.0])))
    assert row.tolist() == [4, 1, 9, 2, 3, 7]
    back = unflat(row, 2, 5.0)
    np.testing.assert_array_equal(back.gram, gram)
    assert (back.target.tolist(), back.losses.tolist(), back.samples) == ([2, 3], [7], 5)


@pytest.mark.parametrize("samples", [5, 3000])
def test_what_travels_of_the_first_features_is_what_would_of_them_alone(
    samples: int,
) -> None:
    """However often it is halved: no sum is larger than the constant's, which both have."""
    rng = np.random.default_rng(samples)
    x = rng.integers(-128, 128, (samples, 9)).astype(np.float32) / UNIT
    x[:, 5:] = 127 / UNIT  # what comes last is halved most often
    y = rng.integers(0, 3, samples)
    whole, narrow = statistics(x, y, 3), statistics(x[:, :4], y, 3)
    first = whole.first(4)
    np.testing.assert_array_equal(first.gram, narrow.gram)
    np.testing.assert_array_equal(first.cross, narrow.cross)
    sent, alone = Rounded.of(whole), Rounded.of(narrow)
    np.testing.assert_array_equal(sent.gram[: packed(4)], alone.gram)
    np.testing.assert_array_equal(sent.cross[:, :5], alone.cross)
    np.testing.assert_array_equal(sent.shifts[:6], alone.shifts)
    assert (alone.shifts[0] > 0) == (samples > 1000)
