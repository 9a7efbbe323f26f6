"""What stays the same from round to round is opened for the same people alone, whenever it is."""

from collections.abc import Collection

import numpy as np
import pytest

from fedsub.testing.refusals import refused
from fedsub_core.errors import MessageRefused
from fedsub_core.secure.opened_sums import OpenedSums
from fedsub_core.secure.participant import Participant

from .people import Sum

SAID = "statistics"


def begun(one: Sum | None, round: int, gone: Collection[str] = (), run: str = "run") -> Sum:
    """Return a sum of the same people and vectors, before they send these."""
    new = Sum(5, seed=round, round=round, run=run, once=SAID)
    if one is not None:
        # Each is another process now.
        new.people = {
            c: Participant(c, 3, person.kept(), opened=OpenedSums.read(person.opened.written()))
            for c, person in one.people.items()
        }
        new.x = one.x
    new.keys(but=gone)
    new.shares()
    return new


def opened(round: int = 2) -> Sum:
    """Return a sum that was opened of four of five people."""
    one = begun(None, round)
    one.vectors(but=["p004"])
    one.unmask()
    return one


def test_another_rounds_sum_without_one_of_them_is_not_opened() -> None:
    """The difference of both would be what the one added."""
    two = begun(opened(), 3)
    two.vectors(but=["p003", "p004"])
    expected = ["round 2", "'run'", "at least 3"]
    with refused(MessageRefused, client="p000", round=3, got="['p003']", expected=expected):
        two.unmask()


def test_an_earlier_rounds_sum_without_one_of_them_is_not_opened_either() -> None:
    """A server that went back, as after restoring a backup, is at round 2 again."""
    one, other = opened(), Sum(5, seed=9, round=4)
    other.people = one.people
    other.keys()
    other.shares()
    other.vectors()
    other.unmask()
    two = begun(other, 2)
    two.x = one.x
    two.vectors(but=["p003", "p004"])
    with pytest.raises(MessageRefused, match="round 2: secure sum: statistics again"):
        two.unmask()


def test_where_one_of_them_cannot_be_in_the_sum_nobody_sends_a_vector() -> None:
    two = begun(opened(), 3, gone=["p003"])
    with refused(MessageRefused, got="['p003']", expected="round 2"):
        two.vectors()
    assert not two.y


def test_with_somebody_more_it_is_not_opened() -> None:
    """Else the difference would be what that one added."""
    two = begun(opened(), 3)
    two.vectors()
    with refused(MessageRefused, "again", got="['p004']", expected="at least 3 others"):
        two.unmask()


def test_the_same_people_open_the_same_sum_again() -> None:
    one = opened()
    two = begun(one, 3)
    two.vectors(but=["p004"])
    np.testing.assert_array_equal(two.unmask(), one.plain())


def test_another_vector_of_the_same_people_is_not_sent() -> None:
    """As with another weight, by which less of the heaviest person alone would be counted."""
    two = begun(opened(), 3)
    two.x = {client: vector + np.uint32(1) for client, vector in two.x.items()}
    with pytest.raises(MessageRefused, match="statistics again: got another vector"):
        two.vectors()


def test_what_is_said_in_another_run_is_said_of_the_same_people() -> None:
    """Another run's name changes no number; what changes each round is opened of anybody."""
    one = opened()
    other = begun(one, 3, run="another")
    other.vectors(but=["p003", "p004"])
    with refused(MessageRefused, round=3, got="['p003']", expected=["round 2", "'run'"]):
        other.unmask()
    models = begun(other, 4, run="another")
    models.once = ""
    models.vectors(but=["p002"])
    np.testing.assert_array_equal(models.unmask(), models.plain())
    two = begun(models, 5, run="another")
    two.vectors(but=["p004"])
    np.testing.assert_array_equal(two.unmask(), two.plain())


def test_who_lost_its_memory_of_a_run_says_in_it_nothing_more_once() -> None:
    one = opened()
    one.people["p001"] = Participant("p001", 3, lost="run")
    two = begun(one, 3)
    with refused(MessageRefused, "no longer knows", client="p001", round=3):
        two.vectors()
    other = begun(two, 4, run="another")
    other.vectors(but=["p004"])
    np.testing.assert_array_equal(other.unmask(), other.plain())


def test_it_knows_in_which_runs_it_took_part() -> None:
    one = begun(None, 2)
    assert not one.people["p000"].took_part("run")
    one.vectors()
    assert one.people["p000"].took_part("run")
    one.unmask()
    later = begun(one, 1, run="another")
    assert later.people["p000"].took_part("run") and not later.people["p000"].took_part("another")
    lost = Participant("p000", 3, lost="a run")
    assert lost.took_part("a run") and not lost.took_part("run")


def test_before_the_first_round_nothing_else_is_opened() -> None:
    """Of a round it is remembered with whom it was opened; of round 0 it is not."""
    one = Sum(5, round=0)
    one.keys()
    one.shares()
    one.vectors()
    with pytest.raises(MessageRefused, match="unmask: got round 0, expected 1 or more"):
        one.unmask()
