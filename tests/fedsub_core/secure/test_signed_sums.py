"""People who go by a roster: no keys but those of its people, and one view of all."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from fedsub.testing.refusals import refused
from fedsub_core.errors import MessageRefused
from fedsub_core.secure import graph
from fedsub_core.secure.keys import commitment, public_of
from fedsub_core.secure.messages import Name, Record, Unmask
from fedsub_core.secure.opening import CannotOpen
from fedsub_core.secure.participant import Participant
from fedsub_core.secure.reader import Reader
from fedsub_core.secure.roster import Roster, Signer
from fedsub_core.secure.roster import public_of as line_of
from fedsub_core.secure.signed_sums import quorum, said_of_keys, said_of_view

from .lying_servers import found
from .people import LEVELS, Sum, signing_key

#: Keys of the server's making, of which it knows the private ones.
FOREIGN = public_of(bytes([1] * 32)) + public_of(bytes([2] * 32)) + commitment(bytes(32))


def shown(people: int = 6, **own: Any) -> Sum:
    """Return a sum whose people have shown signed keys."""
    one = Sum(people, signed=True, **own)
    one.keys()
    return one


@pytest.mark.parametrize(
    "gone",
    [
        {},
        {"keys": ["p001", "p007", "p009"]},
        {"shares": ["p000", "p003", "p008"]},
        {"vectors": ["p002", "p004", "p006"]},
        {"unmask": ["p000", "p005", "p009"]},
        {"shares": ["p001"], "vectors": ["p000"], "unmask": ["p002"]},
    ],
    ids=["nobody", "keys", "shares", "vectors", "unmask", "three phases"],
)
def test_three_of_ten_may_still_go_silent(gone: dict[str, list[str]]) -> None:
    one = Sum(10, signed=True)
    one.keys(gone.get("keys", ()))
    one.shares(gone.get("shares", ()))
    one.vectors(gone.get("vectors", ()))
    np.testing.assert_array_equal(one.unmask(gone.get("unmask", ())), one.plain())


def test_among_many_each_knows_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(graph, "enough", lambda people: min(12, people - 1))
    one = shown(40, length=3)
    one.shares()
    assert {len(sealed) for sealed in one.server.sealed.values()} == {12}
    assert {person.people for person in one.people.values()} == {40}
    gone = sorted(one.people)[::4]
    one.vectors(but=gone)
    np.testing.assert_array_equal(one.unmask(), one.plain())


def test_who_showed_no_keys_is_in_no_view() -> None:
    """However many of the roster help the server: those who are not in the sum do not count."""
    one = Sum(10, signed=True)
    one.keys(but=["p008", "p009"])
    one.shares()
    one.vectors()
    sent = tuple(sorted(one.people))
    with refused(MessageRefused, client="p000", what="view", got="['p008', 'p009']"):
        one.people["p000"].answer(Unmask(one.server.name, sent, ()).record("view"), 1)


def test_each_takes_part_from_what_it_kept() -> None:
    one = shown()

    def restart() -> None:
        for name, person in one.people.items():
            one.people[name] = Participant(name, 3, person.kept(), signer=one.signers[name])

    for step in (restart, one.shares, restart, one.vectors, restart):
        step()
    np.testing.assert_array_equal(one.unmask(), one.plain())


# Keys.

Change = Callable[[Sum, Record], Record]


def put(record: Record, client: str, keys: bytes, signature: bytes) -> Record:
    """Return a question for shares with somebody's keys, or another person, in it."""
    own = dict(zip(record["clients"], record["values"], strict=True)) | {client: keys}
    every = dict(zip(record["signed"], record["signed_keys"], strict=True))
    every |= {client: keys + signature}
    return record | {
        "clients": list(own), "values": list(own.values()),
        "signed": list(every), "signed_keys": list(every.values()),
    }  # fmt: skip


def signature_in(one: Sum, client: str) -> bytes:
    """Return the signature by which somebody showed its keys in a sum."""
    return one.server.signatures[client]


def of_other(one: Sum, client: str, **other: Any) -> bytes:
    """Return a signature of the keys in this sum, for another sum."""
    name = Name(**{**vars(one.server.name), **other})
    return one.signers[client].sign(said_of_keys(name, joined_in(one, client)))


def joined_in(one: Sum, client: str) -> bytes:
    return one.server.keys[client].joined()


def by(one: Sum, client: str, signer: int) -> bytes:
    """Return a signature of the server's keys in somebody's name, by another key."""
    key = Signer(client, signing_key(signer), Roster({}))
    return key.sign(said_of_keys(one.server.name, FOREIGN))


IN_ROSTER = "a signature of its key in the roster"
ATTACKS: dict[str, tuple[Change, str, str]] = {
    "another key": (
        lambda one, r: put(r, "p001", FOREIGN, signature_in(one, "p001")), "'p001'", IN_ROSTER,
    ),
    "another key, signed by the server": (
        lambda one, r: put(r, "p001", FOREIGN, by(one, "p001", 77)), "'p001'", IN_ROSTER,
    ),
    "another key, signed by somebody who helps": (
        lambda one, r: put(r, "p001", FOREIGN, by(one, "p001", 3)), "'p001'", IN_ROSTER,
    ),
    "another key, not signed": (
        lambda one, r: put(r, "p001", FOREIGN, bytes(96)), "'p001'", IN_ROSTER,
    ),
    "an invented person": (
        lambda one, r: put(r, "x", FOREIGN, by(one, "x", 77)),
        "'x', who is not in the roster", "one of the 6",
    ),
    "keys of another session": (
        lambda one, r: put(r, "p001", joined_in(one, "p001"),
                           of_other(one, "p001", session=bytes(16))), "'p001'", IN_ROSTER,
    ),
    "keys of another round": (
        lambda one, r: put(r, "p001", joined_in(one, "p001"), of_other(one, "p001", round=2)),
        "'p001'", IN_ROSTER,
    ),
    "keys of another run": (
        lambda one, r: put(r, "p001", joined_in(one, "p001"), of_other(one, "p001", run="b")),
        "'p001'", IN_ROSTER,
    ),
    "keys of another method": (
        lambda one, r: put(r, "p001", joined_in(one, "p001"), of_other(one, "p001", method="b")),
        "'p001'", IN_ROSTER,
    ),
    "no signatures": (
        lambda one, r: {k: v for k, v in r.items() if not k.startswith("signed")},
        "keys without signatures", "of whom there are 6",
    ),
    "neighbours' keys alone changed": (
        lambda one, r: r | {"values": [FOREIGN, *r["values"][1:]]}, "['p001']", "they signed",
    ),
    "fewer neighbours": (
        lambda one, r: r | {"clients": r["clients"][1:], "values": r["values"][1:]},
        "p002", "'p001', 'p002'",
    ),
    "a list without oneself": (
        lambda one, r: r | {"signed": r["signed"][1:], "signed_keys": r["signed_keys"][1:]},
        "without the keys that 'p000' showed", "among them",
    ),
    "somebody twice": (
        lambda one, r: r | {"signed": ["p001", *r["signed"][1:]]}, "twice", "once",
    ),
    "a short signature": (
        lambda one, r: r | {"signed_keys": [b"x", *r["signed_keys"][1:]]}, "1 bytes", "192",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("attack", "got", "expected"), ATTACKS.values(), ids=ATTACKS)
def test_keys_of_others_than_the_rosters_are_refused(
    attack: Change, got: str, expected: str
) -> None:
    one = shown()
    asked = one.server.ask_shares()["p000"]
    with refused(MessageRefused, client="p000", round=1, got=got, expected=expected):
        one.people["p000"].answer(attack(one, asked), 1)
    # It has shared nothing, and takes part as soon as the server is honest.
    one.shares()
    one.vectors()
    np.testing.assert_array_equal(one.unmask(), one.plain())


def test_without_a_roster_the_same_keys_are_believed() -> None:
    one = Sum(6)
    one.keys()
    asked = one.server.ask_shares()["p000"]
    answer = one.people["p000"].answer(asked | {"values": [FOREIGN, *asked["values"][1:]]}, 1)
    assert "p001" in answer["clients"]


def test_shares_are_read_by_those_who_were_shown_the_same_list() -> None:
    one = shown()
    fewer = Sum(6, signed=True)
    fewer.server.name = one.server.name
    fewer.server.keys = {c: k for c, k in one.server.keys.items() if c != "p005"}
    fewer.server.signatures = one.server.signatures
    lists = one.server.ask_shares(), fewer.server.ask_shares()
    for client in fewer.server.keys:
        asked = lists[client in ("p003", "p004")][client]
        answer = one.people[client].answer(asked, 1)
        one.server.sealed[client] = dict(zip(answer["clients"], answer["values"], strict=True))
    plan = one.server.plans(LEVELS)["p000"]
    with refused(MessageRefused, client="p000", round=1, what="shares of 'p003'"):
        one.people["p000"].accept(Reader("p000", 1).plan(plan.record()))


def test_who_signs_nothing_is_left_out_where_most_do() -> None:
    one = Sum(6, signed=True)
    for client in ("p001", "p004"):
        one.people[client] = Participant(client, 3)
    one.keys()
    assert one.server.leave_out_unsigned() == ["p001", "p004"]
    one.shares()
    one.vectors()
    np.testing.assert_array_equal(one.unmask(), one.plain())
    assert one.server.sent == {"p000", "p002", "p003", "p005"}


def test_who_signs_refuses_where_most_do_not() -> None:
    one = Sum(6, signed=True)
    for client in ("p001", "p002", "p003", "p004"):
        one.people[client] = Participant(client, 3)
    one.keys()
    assert one.server.leave_out_unsigned() == []
    asked = one.server.ask_shares()
    with refused(MessageRefused, client="p000", got="keys without signatures"):
        one.people["p000"].answer(asked["p000"], 1)
    one.people["p001"].answer(asked["p001"], 1)


# Views.


def test_a_quorum_is_more_than_two_thirds() -> None:
    for people in range(3, 200):
        most = (people - 1) // 3  # who may help the server
        assert 2 * quorum(people) - people > most
        assert people - quorum(people) >= int(0.3 * people) - (people < 7)


@pytest.mark.parametrize("helpers", [2, 3])
def test_two_lists_and_colluding_devices_open_nobodys_vector(helpers: int) -> None:
    one = shown(10)
    one.shares()
    one.vectors()
    helping = [f"p{9 - i:03}" for i in range(helpers)]
    refusals: list[MessageRefused] = []
    mask, seed = found(one, "p000", helping, refusals)
    assert {(one.what, one.got[:11]) for one in refusals} == {("secure sum: views", "the same of")}
    # Six open a secret; one of the two stays hidden.
    assert min(len(mask), len(seed)) == helpers and graph.threshold(10) == 6


def viewed(people: int = 6) -> tuple[Sum, Unmask]:
    """Return a sum whose people have signed what they saw, and the question to the first."""
    one = shown(people)
    one.shares()
    one.vectors()
    for client, asked in one.server.ask_views().items():
        one.server.take_view(client, one.people[client].answer(asked, 1))
    return one, one.server.ask_unmask()["p000"]


def signed_view(one: Sum, client: str, **other: Any) -> bytes:
    """Return somebody's view, signed for another sum, or another view."""
    view = other.pop("view", one.server.views[client][:32].hex())
    name = Name(**{**vars(one.server.name), **other})
    return bytes.fromhex(view) + one.signers[client].sign(said_of_view(name, view))


VIEWS: dict[str, tuple[Callable[[Sum], dict[str, bytes]], str, str]] = {
    "another view": (
        lambda one: {"p002": signed_view(one, "p002", view="ab" * 32)},
        "abababababababab..., signed by 'p002'", "as this device saw",
    ),
    "of another session": (
        lambda one: {"p002": signed_view(one, "p002", session=bytes(16))}, "'p002'", IN_ROSTER,
    ),
    "of another round": (
        lambda one: {"p002": signed_view(one, "p002", round=2)}, "'p002'", IN_ROSTER,
    ),
    "of another run": (
        lambda one: {"p002": signed_view(one, "p002", run="b")}, "'p002'", IN_ROSTER,
    ),
    "of somebody else": (
        lambda one: {"p002": one.server.views["p003"]}, "'p002'", IN_ROSTER,
    ),
    "of a stranger": (
        lambda one: {"x": one.server.views["p003"]},
        "'x', who is not in the roster", "one of the 6",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("change", "got", "expected"), VIEWS.values(), ids=VIEWS)
def test_who_finds_another_view_says_whose_and_answers_nothing(
    change: Callable[[Sum], dict[str, bytes]], got: str, expected: str
) -> None:
    one, asked = viewed()
    changed = Unmask(asked.name, asked.sent, asked.silent, {**asked.views, **change(one)})
    with refused(MessageRefused, client="p000", round=1, what="views", got=got, expected=expected):
        one.people["p000"].answer(changed.record(), 1)
    np.testing.assert_array_equal(one.unmask(), one.plain())


def test_views_of_others_than_those_who_sent_do_not_count() -> None:
    one, asked = viewed()
    views = {**asked.views, "p000": one.server.views["p000"]}
    question = Unmask(asked.name, asked.sent, asked.silent, views)
    one.people["p000"].answer(question.record(), 1)
    others = Unmask(asked.name, asked.sent[:2], asked.sent[2:], asked.views)
    with refused(MessageRefused, client="p001"):
        one.people["p001"].answer(others.record(), 1)


def test_too_few_views_open_nothing() -> None:
    one, asked = viewed()
    few = Unmask(asked.name, asked.sent, asked.silent, dict(list(asked.views.items())[:3]))
    with refused(MessageRefused, what="views", got="the same of 4 people", expected="5 of 6"):
        one.people["p000"].answer(few.record(), 1)
    with refused(MessageRefused, what="views", got="the same of 1 people"):
        one.people["p000"].answer(Unmask(asked.name, asked.sent, asked.silent).record(), 1)


def test_nobody_signs_two_views_or_opens_another() -> None:
    one, asked = viewed()
    other = Unmask(asked.name, asked.sent[:-1], asked.sent[-1:], asked.views)
    person = one.people["p000"]
    with refused(MessageRefused, what="view", got="another than before"):
        person.answer(other.record("view"), 1)
    with refused(MessageRefused, what="unmask", expected="of whom it signed that they sent"):
        person.answer(other.record(), 1)
    silent = Unmask(asked.name, asked.sent[1:], asked.sent[:1])
    with refused(MessageRefused, client="p001", what="view"):
        one.people["p001"].answer(Unmask(asked.name, ("p000",), ()).record("view"), 1)
    with refused(MessageRefused, what="view", expected="it among sent"):
        person.answer(silent.record("view"), 1)


def test_an_opened_sum_is_answered_again_and_a_view_asks_for_a_roster() -> None:
    one, asked = viewed()
    person = one.people["p000"]
    again = [person.answer(asked.record(), 1) for _ in range(2)]
    assert again[0] == again[1]
    plain = Sum(4)
    plain.keys()
    with refused(MessageRefused, got="'view'", expected="with a roster"):
        plain.people["p000"].answer(plain.server.name.record("view"), 1)


@pytest.mark.parametrize("seen", [{}, {"view": b"x"}, {"view": bytes(32)}, {"view": 1}])
def test_a_server_takes_no_view_without_a_signature(seen: Record) -> None:
    one, _ = viewed()
    with refused(MessageRefused, client="p000", what="view"):
        one.server.take_view("p000", seen)
    with refused(MessageRefused, client="p000", what="signature"):
        one.server.take_view("p000", {"view": bytes(32), "signature": b"x"})


def test_a_device_that_lies_of_its_view_is_named_by_all() -> None:
    one, _ = viewed()
    one.server.views["p003"] = signed_view(one, "p003", view="ab" * 32)
    for client, asked in one.server.ask_unmask().items():
        if client != "p003":
            with refused(MessageRefused, client=client, got="signed by 'p003'"):
                one.people[client].answer(asked.record(), 1)
    with pytest.raises(CannotOpen):
        one.server.open()


def test_a_roster_has_the_same_people_on_all_devices() -> None:
    one = shown()
    fewer = Roster({c: line_of(s.own) for c, s in one.signers.items() if c != "p004"})
    signer = Signer("p000", one.signers["p000"].own, fewer)
    person = Participant("p000", 3, one.people["p000"].kept(), signer=signer)
    with refused(MessageRefused, got="'p004', who is not in the roster", expected="one of the 5"):
        person.answer(one.server.ask_shares()["p000"], 1)
