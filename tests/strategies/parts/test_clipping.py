"""Bounds by who holds a number: how much one of few whole devices adds, worked out by hand."""

from collections.abc import Mapping

import numpy as np
import pytest
import torch
from torch import Tensor

from fedsub_core.config.robust import RobustSettings
from fedsub_core.placement import EVERYWHERE, Placement
from fedsub_core.wire.bundles import Bundle, Floats
from strategies.parts.averaging import Rule, robust_mean
from strategies.parts.clipping import MOST_ADDED, clip, most_added

CLIP = RobustSettings()
FIRST, SECOND = (Placement(np.array(rows)) for rows in ([0], [1]))


def way(value: float, at: Placement = EVERYWHERE, examples: int = 1) -> Bundle:
    """An upload that moved each of two numbers, or those at a place, by `value`."""
    return Bundle(examples, tensors={"w": Floats(np.full(at.shape((2,)), value, np.float32), at)})


def mean_of(uploads: Mapping[str, Bundle], rule: Rule = "holders") -> list[float]:
    start: dict[str, Tensor] = {"w": torch.zeros(2)}
    return list(robust_mean(uploads, start, CLIP, rule=rule)["w"].tolist())


def of_ten(far: float, whole: int) -> dict[str, Bundle]:
    """Ten uploads of which the first `whole` hold both numbers, and one of these goes `far`."""
    kinds = [way(1)] * (whole - 1) + [way(1, FIRST)] * (10 - whole)
    return {"evil": way(far)} | {f"c{i}": one for i, one in enumerate(kinds)}


@pytest.mark.parametrize("far", [1e3, -1e3])
@pytest.mark.parametrize("whole", range(3, 11))
def test_nobody_adds_more_than_a_third_of_what_the_other_holders_do(whole: int, far: float) -> None:
    """Of all ten it is three medians, which are more than the other two of three add."""
    shared, outer = mean_of(of_ten(far, whole))
    assert shared == pytest.approx((9 + np.sign(far) * 3) / 10)
    most = max(1, (whole - 1) / 3)
    assert outer == pytest.approx((whole - 1 + np.sign(far) * most) / whole)


def test_what_nobody_holds_of_others_counts_as_it_was_under_the_same_bound() -> None:
    """Ways of 1, 1 and a shortened 1 of ten, seven of whom say nothing of the number."""
    assert mean_of(of_ten(1e3, 3), "residual") == pytest.approx([1.2, 0.3])


def test_weight_and_length_have_one_bound_among_holders() -> None:
    """With three times the samples, a way of 1/3: 1 + 1 + 3 / 3, of five parts."""
    uploads = of_ten(1e3, 3)
    uploads["evil"] = way(1e3, examples=3)
    assert mean_of(uploads)[1] == pytest.approx(3 / 5)


@pytest.mark.parametrize(("far", "adds"), [(2.0, 2.0), (1e3, MOST_ADDED), (-1e3, -MOST_ADDED)])
def test_of_what_one_alone_holds_its_own_word_has_a_usual_length(far: float, adds: float) -> None:
    assert mean_of(of_ten(far, 1))[1] == pytest.approx(adds)


def test_of_two_holders_neither_goes_unusually_far() -> None:
    """A thousand together with another liar's is no length that the others know."""
    uploads = of_ten(1e3, 2)
    uploads["c0"] = way(1e3)
    assert mean_of(uploads)[1] == pytest.approx(MOST_ADDED)


def test_numbers_that_equally_many_hold_have_one_bound() -> None:
    """Two groups of three, each of which holds another number; the bound is of all six."""
    uploads = {f"a{i}": way(1, FIRST) for i in range(3)} | {f"b{i}": way(4, SECOND) for i in (1, 2)}
    uploads["evil"] = way(1e3, SECOND)
    assert mean_of(uploads) == pytest.approx([1, (1 + 1 + 1) / 3])


def test_one_place_that_all_hold_is_bounded_as_a_whole_model_bit_for_bit() -> None:
    stream = np.random.default_rng(1)
    ways = stream.normal(size=(5, 50)).astype(np.float32) * np.array([[1], [1], [1], [1], [50]])
    at = Placement(np.arange(0, 100, 2))
    some, whole = dict[str, Bundle](), dict[str, Bundle]()
    for i, one in enumerate(ways.astype(np.float32)):
        some[str(i)] = Bundle(1, tensors={"w": Floats(one, at)})
        whole[str(i)] = Bundle(1, tensors={"w": Floats(one)})
    found = robust_mean(some, {"w": torch.zeros(100)}, CLIP)["w"]
    expected = robust_mean(whole, {"w": torch.zeros(50)}, CLIP)["w"]
    assert torch.equal(at.take(found), expected)
    assert clip(whole, {"w": torch.zeros(50)}, [0.2] * 5).shortens


def test_honest_devices_of_all_sizes_are_left_as_they_are() -> None:
    """What makes no update too long changes no bit: ways of weak devices are no shorter."""
    uploads = {f"w{i}": way(1.5) for i in range(3)} | {f"s{i}": way(1, FIRST) for i in range(7)}
    found = clip(uploads, {"w": torch.zeros(2)}, [0.1] * 10)
    assert not found.shortens and most_added(3) == 1


@pytest.mark.parametrize("sizes", [1, 2])
def test_factors_are_of_numbers_that_equally_many_hold(sizes: int) -> None:
    """One for each number of people would take the square of all people's memory."""
    uploads = {f"{i}": way(1, FIRST if i % sizes else EVERYWHERE) for i in range(30)}
    found = clip(uploads, {"w": torch.zeros(2)}, [1 / 30] * 30)
    assert found.factors.shape == (30, sizes)
    assert (found.column is None) == (sizes == 1)
