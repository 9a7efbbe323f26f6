"""What the battery's fast part leaves out is tested of another method, and none of it is lost."""

from collections.abc import Callable
from itertools import product

import pytest

from fedsub.testing.cover import Half, cases, chosen, device, itself, pair, server, turns
from fedsub.testing.message_tests import ENCODINGS, MessageTests
from fedsub.testing.round_tests import RoundTests
from fedsub_core.methods.card import MethodCard
from fedsub_core.methods.table import METHODS

NAMES = tuple(METHODS)


def loaded(card: MethodCard) -> set[object]:
    """Return all code of a method that a run may load."""
    halves = {half for sums in (False, True) for half in (card.load_learner(sums),)}
    return halves | {card.load_strategy(sums) for sums in (False, True)} | {card.load_predictor()}


@pytest.mark.parametrize("half", [device, server, pair, itself])
@pytest.mark.parametrize("values", [1, 3, 50])
def test_each_half_and_each_value_is_there(half: Half, values: int) -> None:
    found = chosen(NAMES, half, values)
    assert {half(METHODS[name]) for name, _ in found} == {half(METHODS[n]) for n in NAMES}
    assert {value for _, value in found} == set(range(values))
    assert len(found) <= max(values, len({half(METHODS[name]) for name in NAMES}))


def test_all_code_of_all_methods_is_in_a_pair() -> None:
    kept = {name for name, _ in chosen(NAMES, pair, 1)}
    of_all = set[object]().union(*(loaded(METHODS[name]) for name in NAMES))
    assert set[object]().union(*(loaded(METHODS[name]) for name in kept)) == of_all
    assert {"fedavg", "fedper"} - kept, "they differ in their cards alone"


def test_the_grid_is_whole_and_the_cover_a_part_of_it() -> None:
    test = MessageTests.test_messages_by_reference_are_as_good_as_written_ones
    arguments, found = cases(NAMES, test)
    assert arguments == ["name", "encoded"]
    assert {values for values, _ in found} == {(n, e) for n in NAMES for e in ENCODINGS}
    covered = {values for values, covered in found if covered}
    assert {encoding for _, encoding in covered} == ENCODINGS.keys()
    assert len(covered) < len(found) / 3


@pytest.mark.parametrize(
    "test",
    [
        RoundTests.test_a_run_trains_everybody_and_reports_what_the_card_says,
        MessageTests.test_what_travels_is_what_the_card_says,
    ],
)
def test_what_a_card_says_is_tested_of_every_method(test: Callable[..., None]) -> None:
    assert all(covered for _, covered in cases(NAMES, test)[1])


def test_values_take_turns_and_all_pairs_are_there() -> None:
    made = turns("abc", (1, 2))
    assert [case.values for case in made] == list(product("abc", (1, 2)))
    fast = [case.values for case in made if not case.marks]
    assert fast == [("a", 1), ("b", 2), ("c", 1)]
    assert all({mark.name for mark in case.marks} in (set(), {"slow", "release"}) for case in made)
