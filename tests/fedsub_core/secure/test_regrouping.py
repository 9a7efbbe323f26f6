"""A sum made anew in groups: what a device answers, and what would tell of fewer people."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedsub.testing.refusals import refused
from fedsub_core.errors import MessageRefused
from fedsub_core.secure.messages import Name, Unmask
from fedsub_core.secure.opening import CannotOpen
from fedsub_core.secure.participant import Participant
from fedsub_core.secure.reader import Reader
from fedsub_core.secure.regrouping import Regrouping, groups_of
from fedsub_core.secure.summation import Summation
from fedsub_core.secure.transcript import Origin

from .people import LEVELS, Sum

Group = tuple[str, ...]


def opened(people: int = 8, smallest: int = 3, **own: Any) -> Sum:
    """Return a sum that was opened, whose plan spoke of groups."""
    one = Sum(people, **own)
    one.server.smallest = smallest
    one.keys()
    one.shares()
    one.vectors()
    one.unmask()
    return one


def groups(one: Sum, smallest: int = 3) -> list[Group]:
    name = one.server.name
    return groups_of(sorted(one.server.sent), name.run, name.method, smallest)


def again(one: Sum, group: Sequence[str], seed: int = 1) -> Sum:
    """Return the sum of a group, before anybody is asked anything."""
    name, stream = one.server.name, np.random.default_rng(seed)
    server = Summation(
        name.round, one.server.least, one.server.length, name.run, name.method, stream.bytes
    )
    server.anew, server.group = (name.session, tuple(sorted(one.server.sent))), tuple(group)
    found = Sum(len(one.people))
    found.server, found.signers, found.x = server, one.signers, one.x
    found.people = {client: one.people[client] for client in group}
    found.round = one.round
    return found


def summed(group: Sum) -> np.ndarray:
    group.keys()
    group.shares()
    group.vectors()
    return group.unmask()


@given(st.integers(2, 60), st.integers(1, 9))
def test_a_partition_is_of_all_and_no_group_is_smaller(people: int, smallest: int) -> None:
    names = [f"p{i}" for i in range(people)]
    found = groups_of(names, "a run", "fedavg", smallest)
    assert sorted(client for group in found for client in group) == sorted(names)
    assert len(found) == max(1, people // smallest)
    assert all(len(group) >= min(smallest, people) for group in found)
    assert max(map(len, found)) - min(map(len, found)) <= 1
    assert groups_of(names[::-1], "a run", "fedavg", smallest) == found


@pytest.mark.parametrize("signed", [False, True], ids=["no roster", "roster"])
@pytest.mark.parametrize("once", ["", "statistics"])
def test_groups_sum_up_to_the_sum(signed: bool, once: str) -> None:
    one = opened(8, signed=signed, once=once)
    total = np.zeros_like(one.plain())
    for group in groups(one):
        total = total + summed(again(one, group))
    np.testing.assert_array_equal(total, one.plain())


def test_a_group_is_answered_after_a_restart() -> None:
    one = opened()
    for name, person in one.people.items():
        one.people[name] = Participant(name, 3, person.kept())
    group = again(one, groups(one)[0])
    np.testing.assert_array_equal(summed(group), group.plain())


def test_the_same_group_may_be_asked_once_more() -> None:
    """As after a crash of the server: what it says is the same."""
    one = opened()
    first, second = (again(one, groups(one)[0], seed) for seed in (1, 2))
    first.keys()
    first.shares()
    first.vectors()
    np.testing.assert_array_equal(summed(second), second.plain())


def asked(one: Sum, **own: Any) -> Regrouping:
    sound = Regrouping(
        replace(one.server.name, session=bytes(16)),
        one.server.name.session,
        tuple(sorted(one.server.sent)),
    )
    return replace(sound, **own)


def test_a_question_about_another_sum_is_refused() -> None:
    one = opened()
    person, name = one.people["p000"], one.server.name
    for wrong in (
        asked(one, of=bytes(16)),
        asked(one, name=Name(2, bytes(16), "run", "fedavg")),
        asked(one, name=Name(1, bytes(16), "another", "fedavg")),
        asked(one, name=Name(1, bytes(16), "run", "fedprox")),
    ):
        with refused(MessageRefused, client="p000", round=wrong.name.round, what="groups"):
            person.answer(wrong.record(), wrong.name.round)
    # A refused question changes nothing.
    group = next(group for group in groups(one) if "p000" in group)
    assert name.round == 1
    summed(again(one, group))


def test_people_of_whom_the_device_knows_better_are_refused() -> None:
    """With fewer, or others, a second partition would be opened beside the first."""
    one = opened()
    everybody = tuple(sorted(one.server.sent))
    for people in (everybody[:-1], (*everybody, "p999"), everybody[1:]):
        signed = "p999" in people
        if signed:
            one = opened(signed=True)
        with refused(MessageRefused, client="p000", what="groups", got=f"{len(people)} people"):
            one.people["p000"].answer(asked(one, people=people).record(), 1)


@pytest.mark.parametrize(
    ("smallest", "got"),
    [(0, "groups of which no plan spoke"), (2, "groups of 2"), (5, "one group of 8 people")],
)
def test_groups_that_are_too_small_or_that_are_one_are_refused(smallest: int, got: str) -> None:
    one = opened(8, smallest)
    with refused(MessageRefused, client="p000", what="groups", got=got):
        one.people["p000"].answer(asked(one).record(), 1)


def test_what_lacks_in_a_group_would_follow_from_the_others() -> None:
    one = opened()
    group = groups(one)[0]
    silent, first = group[1], group[0]
    without = again(one, group)
    without.keys(but=[silent])
    for client, question in without.server.ask_shares().items():
        with refused(MessageRefused, client=client, what="groups"):
            without.people[client].answer(question, 1)
    without = again(one, group, seed=2)
    without.keys()
    without.shares(but=[silent])
    with refused(MessageRefused, what="groups", got=f"a plan without ['{silent}'"):
        without.vectors()
    without = again(one, group, seed=3)
    without.keys()
    without.shares()
    without.vectors(but=[silent])
    sent = tuple(sorted({*group} - {silent}))
    with refused(MessageRefused, client=first, what="unmask", got=f"a group without {silent}"):
        without.people[first].answer(Unmask(without.server.name, sent, (silent,)).record(), 1)


def test_of_another_group_nobody_shares_secrets() -> None:
    """Who stands in two groups would be what they have in common."""
    one = opened()
    first, second = groups(one)
    mixed = again(one, (*first[:-1], second[0]))
    mixed.keys()
    for client, question in mixed.server.ask_shares().items():
        with refused(MessageRefused, client=client, what="groups"):
            mixed.people[client].answer(question, 1)


def test_a_group_adds_up_the_very_vectors() -> None:
    one = opened()
    group = again(one, groups(one)[0])
    group.keys()
    group.shares()
    client, plan = next(iter(group.server.plans(LEVELS).items()))
    group.people[client].accept(plan)
    with refused(MessageRefused, client=client, what="vector", got="another vector"):
        group.people[client].masked(one.x[client] + np.uint32(1), plan.name, Origin())


def test_a_round_is_not_opened_again_with_other_groups() -> None:
    """Two partitions of the same vectors have parts in common."""
    one = opened(12, 3)
    for group in groups(one):
        summed(again(one, group))
    repeated = again(one, tuple(one.people))
    repeated.server = Summation(1, 3, one.server.length, "run", "fedavg")
    repeated.server.smallest = 4
    np.testing.assert_array_equal(summed(repeated), one.plain())
    for group in groups(repeated, 4):
        with refused(MessageRefused, what="round 1 again"):
            summed(again(repeated, group))


def test_a_group_told_different_things_does_not_add_up() -> None:
    """Masks cancel where all were told the same."""
    one = opened()
    group = groups(one)[0]
    mine = again(one, group)
    mine.keys()
    mine.shares()
    for client, plan in mine.server.plans(LEVELS).items():
        made = Origin(made_of="x" if client == group[0] else "y")
        mine.people[client].accept(Reader(client, 1).plan(plan.record()))
        masked = mine.people[client].masked(one.x[client], plan.name, made)
        mine.server.take_vector(client, masked)
    with pytest.raises(CannotOpen, match=f"{group[0]} were told something else"):
        mine.unmask()
