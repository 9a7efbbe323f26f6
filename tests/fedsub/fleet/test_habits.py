"""Habits follow from the seed, and are the kinds' own."""

import numpy as np
import pytest

from fedsub.fleet.habits import (
    BOX,
    DAY,
    JOINS,
    KINDS,
    LEAVES,
    NIGHTS,
    SELDOM,
    Habits,
    habits,
    merged,
)

MANY = [f"p{number}" for number in range(400)]


def drawn(days: int = 30, seed: int = 1) -> list[Habits]:
    return [habits(person, days, seed) for person in MANY]


def test_the_same_seed_gives_the_same_habits() -> None:
    for one, again in zip(drawn(), drawn(), strict=True):
        np.testing.assert_array_equal(one.there, again.there)
        assert (one.kind, one.phones, one.left, one.work) == (
            again.kind,
            again.phones,
            again.left,
            again.work,
        )
    assert [one.kind for one in drawn()] != [one.kind for one in drawn(seed=2)]


def test_who_is_seldom_there_is_there_half_as_often_as_who_has_the_same_nights() -> None:
    share = {
        kind: np.mean([one.share(0, 30 * DAY) for one in drawn() if one.kind == kind])
        for kind in KINDS
    }
    assert share[BOX] > 0.85 and 0.4 < share[SELDOM] / share[NIGHTS] < 0.6


def test_who_has_a_wrong_clock_for_all_days_is_never_there() -> None:
    assert min(one.next_there(0.0) for one in drawn(days=1)) < DAY
    assert any(one.next_there(0.0) == np.inf for one in drawn(days=1))


def test_some_join_late_and_some_leave() -> None:
    left = np.mean([one.left < 30 * DAY for one in drawn()])
    late = np.mean([one.next_there(0.0) > 3 * DAY for one in drawn() if one.kind != SELDOM])
    assert LEAVES / 3 < left < LEAVES * 3 and JOINS / 3 < late < JOINS * 3
    for one in drawn():
        assert (one.there >= 0).all() and (one.there <= min(one.left, 30 * DAY)).all()


@pytest.mark.parametrize("moment, expected", [(0.0, 5.0), (5.0, 5.0), (7.0, 7.0), (9.0, 20.0)])
def test_the_next_moment_is_by_hand(moment: float, expected: float) -> None:
    own = Habits(BOX, np.array([[5.0, 9.0], [20.0, 30.0]]), (), np.inf, 1.0, 1.0)
    assert own.next_there(moment) == expected
    assert own.next_there(30.0) == np.inf
    assert own.share(0.0, 40.0) == 14 / 40


def test_stretches_that_touch_are_joined() -> None:
    found = merged(np.array([[8.0, 9.0], [1.0, 4.0], [4.0, 6.0], [2.0, 3.0]]))
    assert found.tolist() == [[1.0, 6.0], [8.0, 9.0]]
