"""Masks cancel between people who were told the same, and between no others."""

from collections.abc import Callable, Collection
from typing import Any

import numpy as np
import pytest

from fedsub.testing.refusals import refused
from fedsub_core.errors import MessageRefused
from fedsub_core.secure import graph
from fedsub_core.secure.keys import Words, commitment, public_of
from fedsub_core.secure.messages import Record
from fedsub_core.secure.opening import CannotOpen
from fedsub_core.secure.people_list import PeopleList
from fedsub_core.secure.reader import Reader
from fedsub_core.secure.summation import Summation
from fedsub_core.secure.transcript import Origin, beside_download, of_bundle
from fedsub_core.wire.bundles import Bits, Bundle, Floats, Part, Whole

from .people import LEVELS, Sum

SOME = {"p000", "p001"}
Lie = Callable[[Record], Record]


class Greedy(Summation):
    """A server's side that opens whatever it can, whatever people say they were told."""

    def _told_all(self) -> str:
        return max(self.opening.told.values())


def told_sum(people: int = 6) -> Sum:
    """Return a sum of people who shared their secrets, before they send vectors."""
    one = Sum(people)
    one.keys()
    one.shares()
    return one


def send(one: Sum, lie: Lie, lied_to: Collection[str], made_of: str = "download") -> None:
    """Let all send their vectors, by plans that are changed for some; theirs were made of more."""
    for client, plan in one.server.plans(LEVELS).items():
        record = plan.record()
        told = Reader(client, 1).plan(lie(record) if client in lied_to else record)
        one.people[client].accept(told)
        origin = Origin(made_of=made_of if client in lied_to else "download")
        one.y[client] = one.people[client].masked(one.x[client], told.name, origin)
        one.server.take_vector(client, one.y[client])


def greedily(one: Sum) -> Words:
    """Return what a server opens that does not mind who was told what."""
    one.server.__class__ = Greedy
    return one.server.open()


LIES: list[tuple[str, Lie, str]] = [
    ("weight", lambda record: record | {"weight": 2}, "download"),
    ("each", lambda record: record | {"each": 2}, "download"),
    ("phase", lambda record: record | {"phase": "moments"}, "download"),
    ("a field of a later release", lambda record: record | {"later": "x"}, "download"),
    ("what the vector was made of", lambda record: record, "another download"),
]


@pytest.mark.parametrize(("lie", "made_of"), [one[1:] for one in LIES], ids=[o[0] for o in LIES])
def test_told_differently_no_sum_opens(lie: Lie, made_of: str) -> None:
    one = told_sum()
    send(one, lie, SOME, made_of)
    with refused(CannotOpen, "round 1", "p000, p001", 4):
        one.unmask()
    opened = greedily(one)
    assert not np.array_equal(opened, one.plain())
    # Nor is it one of those who were told the same, whose numbers are then all unlike.
    alike = sum((one.x[c] for c in one.people.keys() - SOME), np.zeros_like(opened))
    assert not (opened == alike).any()


def test_told_the_same_it_opens_whatever_it_is() -> None:
    one = told_sum()
    send(one, lambda record: record | {"later": "x", "weight": 5}, one.people.keys(), "zeros")
    np.testing.assert_array_equal(one.unmask(), one.plain())


def test_who_was_told_something_else_is_as_good_as_silent() -> None:
    """The server then has the sum of the others, of whom there are enough, and no more."""
    one = told_sum()
    lie = LIES[0][1]
    take, one.server.take_vector = one.server.take_vector, lambda client, vector: None  # type: ignore[method-assign]
    send(one, lie, SOME)
    for client in one.people.keys() - SOME:
        take(client, one.y[client])
    np.testing.assert_array_equal(one.unmask(), one.plain())
    assert one.server.sent == one.people.keys() - SOME
    # The two themselves help to open nothing of fewer than the least.
    asked = {c: one.people[c] for c in SOME}
    question = {**one.server.name.record("unmask"), "sent": sorted(SOME)}
    question["silent"] = sorted(one.people.keys() - SOME)
    for person in asked.values():
        with pytest.raises(MessageRefused, match="people: got 2, expected 3 at least"):
            person.answer(question, 1)


def test_groups_that_are_shown_lists_of_their_own_are_sums_of_their_own() -> None:
    """Each is of as many people as any sum, and its masks cancel in no other."""
    one = Sum(6)
    one.keys()
    groups = [sorted(one.people)[:3], sorted(one.people)[3:]]
    opened = []
    for group in groups:
        own = Sum(6)
        own.server.name = one.server.name
        own.people = {client: one.people[client] for client in group}
        own.x = {client: one.x[client] for client in group}
        own.server.keys = {client: one.server.keys[client] for client in group}
        own.shares()
        own.vectors()
        opened.append(own.unmask())
        np.testing.assert_array_equal(opened[-1], own.plain())
    two = Sum(4)
    two.keys()
    two.server.keys = {c: two.server.keys[c] for c in ("p000", "p001")}
    with pytest.raises(MessageRefused, match="people: got 2, expected 3 at least"):
        two.shares()


def test_the_same_session_takes_no_second_plan_and_no_second_making() -> None:
    """One vector under two sets of masks would be in two sums."""
    one = told_sum()
    send(one, lambda record: record, ())
    person, plan = one.people["p000"], one.server.plans(LEVELS)["p000"]
    other = Reader("p000", 1).plan(plan.record() | {"weight": 2})
    with refused(MessageRefused, client="p000", round=1, what="plan", got="another"):
        person.accept(other)
    with refused(MessageRefused, what="told"):
        person.masked(one.x["p000"], plan.name, Origin(made_of="another"))


def test_whom_it_was_counted_with_a_person_knows_itself() -> None:
    one = Sum(5)
    for step in (one.keys, one.shares, one.vectors, one.unmask):
        step()
    two = Sum(5, seed=1, round=2)
    two.people, two.x = one.people, one.x
    two.keys()
    two.shares()
    plan = two.server.plans(LEVELS)["p000"]
    came = Reader("p000", 2).plan(plan.record())
    person = two.people["p000"]
    person.accept(came)
    with pytest.raises(MessageRefused, match="as if it had not been in the sum of round 1"):
        person.masked(two.x["p000"], came.name, Origin(outside=1))
    person.masked(two.x["p000"], came.name, Origin(outside=0))


@pytest.fixture
def sparse(monkeypatch: pytest.MonkeyPatch) -> Sum:
    """Return a sum of people each of whom has a few neighbours."""
    monkeypatch.setattr(graph, "enough", lambda people: min(4, people - 1))
    one = Sum(12)
    one.keys()
    return one


def test_among_many_all_go_by_the_list_of_all(sparse: Sum) -> None:
    asked = sparse.server.ask_shares()
    assert len({record["people"] for record in asked.values()}) == 1
    sparse.shares()
    assert {person.people for person in sparse.people.values()} == {12}
    sparse.vectors(but=["p003", "p009"])
    np.testing.assert_array_equal(sparse.unmask(), sparse.plain())


def stranger() -> bytes:
    """Return the keys of a person whom the server made up."""
    return public_of(bytes([1] * 32)) + public_of(bytes([2] * 32)) + commitment(bytes(32))


def test_lists_that_differ_open_nothing(sparse: Sum) -> None:
    joined = {client: keys.joined() for client, keys in sparse.server.keys.items()}
    fewer = {client: keys for client, keys in joined.items() if client != "p011"}
    other = PeopleList.of(fewer | {"x": stranger()}).joined()
    for client, asked in sparse.server.ask_shares().items():
        apart = client in ("p000", "p001") and "p011" not in asked["clients"]
        answer = sparse.people[client].answer(asked | ({"people": other} if apart else {}), 1)
        sparse.server.take_shares(client, answer)
    assert len({person._own.listed for person in sparse.people.values()}) == 2
    sparse.vectors()
    with pytest.raises(CannotOpen, match="were told something else"):
        sparse.unmask()
    assert not np.array_equal(greedily(sparse), sparse.plain())


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda leaves: leaves[1:], "without 1 of them"),
        (lambda leaves: leaves[::-1], "out of order"),
        (lambda leaves: [*leaves[:-1], leaves[-2]], "out of order"),
        (lambda leaves: [*leaves[:-1], leaves[-1][:5]], "out of order"),
    ],
    ids=["somebody left out", "backwards", "twice", "cut"],
)
def test_a_list_that_cannot_be_is_refused_by_name(sparse: Sum, change: Any, said: str) -> None:
    own = [c for c in sorted(sparse.people)]
    joined = {client: keys.joined() for client, keys in sparse.server.keys.items()}
    leaves = list(PeopleList.of(joined).leaves)
    first = min(own, key=lambda c: PeopleList.of({c: joined[c]}).leaves[0])
    record = sparse.server.ask_shares()[first] | {"people": b"".join(change(leaves))}
    with refused(MessageRefused, said, client=first, round=1):
        sparse.people[first].answer(record, 1)


def test_a_list_of_many_with_few_neighbours_is_refused() -> None:
    """Levels among many are coarse: numbers of most of a few people would be zeros."""
    one = Sum(4)
    one.keys()
    joined = {client: keys.joined() for client, keys in one.server.keys.items()}
    many = PeopleList.of(joined | {f"x{i}": stranger() for i in range(996)}).joined()
    record = one.server.ask_shares()["p000"] | {"people": many}
    with refused(MessageRefused, got=["3 neighbours", 1000], expected=166):
        one.people["p000"].answer(record, 1)


def test_what_is_of_one_person_is_in_no_hash_and_all_else_is() -> None:
    turn = {"round": 1, "seed": 0, "later": 1}
    said = beside_download(turn, {"lr": 0.1})
    assert said == beside_download({**turn, "evaluate": True, "salt": b"x"}, {"lr": 0.1})
    others = [
        beside_download({**turn, "round": 2}, {"lr": 0.1}),
        beside_download({**turn, "later": 2}, {"lr": 0.1}),
        beside_download(turn, {"lr": 0.2}),
        beside_download(turn, {"lr": 0.1, "later": 1}),
    ]
    assert len({said, *others}) == 5


def test_a_download_is_hashed_by_all_that_it_says() -> None:
    values, mask = np.ones((2, 3), np.float32), np.array([True, False, True])
    parts: list[dict[str, Part]] = [
        {},
        {"a": Floats(values)},
        {"b": Floats(values)},
        {"a": Floats(2 * values)},
        {"a": Floats.rows(mask, values)},
        {"a": Floats.rows(~mask, values[:1])},
        {"a": Bits(mask)},
        {"a": Bits(~mask)},
        {"a": Whole(np.ones(3, np.int16))},
    ]
    bundles = [Bundle(tensors=one) for one in parts] + [Bundle(version=1), Bundle(examples=1)]
    assert len({of_bundle(one) for one in bundles}) == len(bundles)
    assert of_bundle(bundles[1]) == of_bundle(Bundle(tensors={"a": Floats(values.copy())}))
