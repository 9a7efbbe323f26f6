"""The protocol: what comes out is the sum, nothing less is ever opened, and lies are found."""

import json
from typing import Any

import numpy as np
import pytest

from fedsub.testing.refusals import refused
from fedsub_core.errors import MessageRefused
from fedsub_core.secure import graph
from fedsub_core.secure.messages import Name, Plan, Record, Unmask
from fedsub_core.secure.opening import CannotOpen
from fedsub_core.secure.participant import Participant
from fedsub_core.secure.reader import Reader

from .people import LEVELS, Sum


@pytest.mark.parametrize("people", [3, 5, 12])
def test_the_sum_is_the_plain_one(people: int) -> None:
    one = Sum(people)
    one.keys()
    one.shares()
    one.vectors()
    np.testing.assert_array_equal(one.unmask(), one.plain())
    assert len(one.server.sent) == people


@pytest.mark.parametrize(
    "gone",
    [
        {"keys": ["p001", "p007", "p009"]},
        {"shares": ["p000", "p003", "p008"]},
        {"vectors": ["p002", "p004", "p006"]},
        {"unmask": ["p000", "p005", "p009"]},
        {"keys": ["p003"], "shares": ["p001"], "vectors": ["p000"]},
        {"vectors": ["p000", "p001"], "unmask": ["p002"]},
    ],
    ids=["keys", "shares", "vectors", "unmask", "three phases", "two phases"],
)
def test_three_of_ten_may_go_silent_whenever_they_like(gone: dict[str, list[str]]) -> None:
    one = Sum(10)
    one.keys(gone.get("keys", ()))
    one.shares(gone.get("shares", ()))
    one.vectors(gone.get("vectors", ()))
    np.testing.assert_array_equal(one.unmask(gone.get("unmask", ())), one.plain())
    left = {c for phase in ("keys", "shares", "vectors") for c in gone.get(phase, ())}
    assert one.server.sent == one.people.keys() - left


def test_among_many_a_sparse_graph_does_with_a_quarter_silent(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(graph, "enough", lambda people: 12)
    one = Sum(40, length=3)
    one.keys()
    one.shares()
    assert {len(sealed) for sealed in one.server.sealed.values()} == {12}
    gone = sorted(one.people)[::4]
    one.vectors(but=gone)
    np.testing.assert_array_equal(one.unmask(), one.plain())


def test_a_masked_vector_looks_like_no_vector() -> None:
    """Of zeros what is sent is noise: no number of it twice, half of its bits set."""
    one = Sum(4, length=4096)
    one.x = {client: np.zeros(4096, np.uint32) for client in one.x}
    one.keys()
    one.shares()
    one.vectors()
    for sent in one.y.values():
        assert len(np.unique(sent)) > 4090
        assert abs(np.unpackbits(sent.view(np.uint8)).mean() - 0.5) < 0.01
    assert not one.unmask().any()


def test_the_server_is_told_no_vector_and_no_secret() -> None:
    one = Sum(5, length=64)
    one.keys()
    one.shares()
    held = [json.loads(person.kept()) for person in one.people.values()]
    private = [bytes.fromhex(own[key]) for own in held for key in ("seal", "mask", "seed")]
    one.vectors(but=["p004"])
    one.unmask()
    told = b"".join(
        part
        for said in one.told
        for value in (said.values() if isinstance(said, dict) else [said.tobytes()])
        for part in (value if isinstance(value, list) else [value])
        if isinstance(part, bytes)
    )
    assert all(sent.tobytes() in told for sent in one.y.values())
    assert not any(secret in told for secret in private)
    assert not any(vector[:4].tobytes() in told for vector in one.x.values())


def test_too_few_people_are_never_summed() -> None:
    one = Sum(5, least=4)
    one.keys()
    one.shares()
    one.vectors(but=["p001", "p003"])
    with refused(CannotOpen, "round 1", "3 vectors", expected=4):
        one.unmask()
    # Nor does anybody help a server that wants it all the same.
    asked = Unmask(one.server.name, ("p000", "p002", "p004"), ("p001", "p003"))
    with refused(MessageRefused, client="p000", round=1, what="people", got=3, expected=4):
        one.people["p000"].answer(asked.record(), 1)
    few = Sum(3, least=4)
    few.keys()
    with pytest.raises(MessageRefused, match="people: got 3, expected 4 at least"):
        few.shares()


@pytest.mark.parametrize("came", [0, 1, 2])
def test_fewer_shares_than_the_threshold_open_nothing(came: int) -> None:
    one = Sum(5)
    one.keys()
    one.shares()
    one.vectors(but=["p004"])
    silent = sorted(one.server.sent)[came:]
    message = f"client 'p000': got {came} shares of 5, expected 3 that fit each other"
    with pytest.raises(CannotOpen, match=message):
        one.unmask(but=silent)


def test_a_wrong_share_is_found_and_named() -> None:
    one = Sum(6)
    one.keys()
    one.shares()
    one.vectors(but=["p005"])

    def lie(client: str, answer: Record) -> Record:
        if client != "p001":
            return answer
        return answer | {"values": [bytes(32) + b"\7"] * len(answer["values"])}

    np.testing.assert_array_equal(one.unmask(change=lie), one.plain())
    assert one.server.opening.wrong == {("p001", c) for c in one.people}


def test_too_many_wrong_shares_open_nothing() -> None:
    one = Sum(5)
    one.keys()
    one.shares()
    one.vectors()

    def lie(client: str, answer: Record) -> Record:
        if client == "p000":
            return answer
        return answer | {"values": [b"\xff" * 33] * len(answer["values"])}

    with pytest.raises(CannotOpen, match="expected 3 that fit each other"):
        one.unmask(change=lie)


def opened() -> Sum:
    """Return a sum that was opened."""
    one = Sum(5)
    one.keys()
    one.shares()
    one.vectors(but=["p004"])
    one.unmask()
    return one


def test_the_same_question_gets_the_same_answer_another_none() -> None:
    one = opened()
    person, asked = one.people["p000"], one.server.ask_unmask()["p000"]
    first = person.answer(asked.record(), 1)
    assert first == person.answer(asked.record(), 1)
    # Who was silent is now to have sent, and the other way round: both secrets of either.
    other = Unmask(asked.name, ("p000", "p002", "p003", "p004"), ("p001",))
    with pytest.raises(MessageRefused, match="a second question with other people"):
        person.answer(other.record(), 1)
    with pytest.raises(MessageRefused, match="a sum that it opened"):
        person.answer(one.server.ask_keys(), 1)
    with pytest.raises(MessageRefused, match="a sum that it opened"):
        person.accept(one.plans["p000"])
    with pytest.raises(MessageRefused, match="a sum that it opened"):
        person.masked(one.x["p000"], asked.name)
    left = person.kept()
    for secret in ("seal", "mask", "seed"):
        assert f'"{secret}": ""'.encode() in left


@pytest.mark.parametrize(
    ("sent", "silent"),
    [
        (["p000", "p001", "p002", "p003", "p004"], ["p001"]),
        (["p000", "p001", "p002"], ["p003"]),
        (["p001", "p002", "p003"], ["p000", "p004"]),
        (["p000", "p001", "p002", "p003"], ["p009"]),
    ],
    ids=["one as both", "somebody left out", "as if it were silent itself", "a stranger"],
)
def test_nobody_opens_both_secrets_of_one_person(sent: list[str], silent: list[str]) -> None:
    one = Sum(5)
    one.keys()
    one.shares()
    one.vectors(but=["p004"])
    asked = Unmask(one.server.name, tuple(sent), tuple(silent))
    with refused(MessageRefused, client="p000", round=1, what="unmask"):
        one.people["p000"].answer(asked.record(), 1)


def test_two_servers_questions_to_two_halves_open_nothing() -> None:
    """A server that tells some that somebody sent, and others that it did not, gets too little."""
    one = Sum(5)
    one.keys()
    one.shares()
    one.vectors()
    name, counts = one.server.name, {"sent": 0, "silent": 0}
    for place, client in enumerate(["p001", "p002", "p003", "p004"]):
        others = tuple(c for c in sorted(one.people) if c != "p000")
        asked = (
            Unmask(name, tuple(sorted(one.people)), ())
            if place % 2
            else Unmask(name, others, ("p000",))
        )
        one.people[client].answer(asked.record(), 1)
        counts["sent" if place % 2 else "silent"] += 1
    # Three of five shares are needed of either secret; its own share the person keeps.
    assert counts == {"sent": 2, "silent": 2}


def test_a_repeated_round_is_opened_for_the_same_people_alone() -> None:
    """Else the difference of both sums would be the vector of who is in one alone."""
    one = opened()

    def again(seed: int, gone: list[str]) -> Sum:
        two = Sum(5, seed=seed)
        two.people, two.x = one.people, one.x
        two.keys()
        two.shares()
        two.vectors(but=gone)
        return two

    with refused(MessageRefused, what="round 1 again", got="['p003']", expected="round 1"):
        again(1, ["p003"]).unmask()
    same = again(2, ["p004"])
    np.testing.assert_array_equal(same.unmask(), one.plain())


def test_another_runs_question_between_does_not_let_it_forget_whom_it_opened() -> None:
    one = opened()
    for person in one.people.values():
        person.answer(Name(1, bytes(16), "another").record("keys"), 1)
    two = Sum(5, seed=1)
    two.people = one.people
    two.keys()
    two.shares()
    two.vectors(but=["p003"])
    with refused(MessageRefused, what="round 1 again", got="['p003']", expected="'run'"):
        two.unmask()


def test_one_vector_goes_under_one_set_of_masks() -> None:
    one = Sum(5)
    one.keys()
    one.shares()
    one.vectors()
    person, plan = one.people["p000"], one.plans["p000"]
    np.testing.assert_array_equal(person.masked(one.x["p000"], plan.name), one.y["p000"])
    with pytest.raises(MessageRefused, match="vector: got another than before"):
        person.masked(one.x["p001"], plan.name)
    fewer = {c: sealed for c, sealed in plan.sealed.items() if c != "p003"}
    with pytest.raises(MessageRefused, match="secure sum: neighbours: got"):
        person.accept(Plan(plan.name, fewer, 1, 1))


def test_shares_of_somebody_else_are_refused() -> None:
    one = Sum(4)
    one.keys()
    one.shares()
    one.server.sealed["p001"]["p000"] = one.server.sealed["p002"]["p000"]
    with refused(MessageRefused, client="p000", what="shares of 'p001'"):
        one.vectors()


def test_another_sums_questions_are_refused() -> None:
    one, other = Sum(4), Sum(4, seed=1)
    one.keys()
    one.shares()
    other.server.keys = one.server.keys
    with pytest.raises(MessageRefused, match="another sum of round 1"):
        one.people["p000"].answer(other.server.ask_shares()["p000"], 1)
    with pytest.raises(MessageRefused, match="secure sum: got round 1"):
        one.people["p000"].answer(one.server.ask_keys(), 2)


def test_who_is_its_own_neighbour_or_shows_anothers_key_is_refused() -> None:
    one = Sum(4)
    one.keys()
    asked = one.server.ask_shares()["p000"]
    same = {**asked, "values": [asked["values"][0]] * 3}
    with pytest.raises(MessageRefused, match="keys: got one key twice"):
        one.people["p000"].answer(same, 1)
    own = {**asked, "clients": ["p000", "p001", "p002"]}
    with pytest.raises(MessageRefused, match="expected its neighbours alone"):
        one.people["p000"].answer(own, 1)
    stolen = {"keys": one.server.keys["p000"].joined()}
    with refused(MessageRefused, "taken", client="p009", round=1):
        one.server.take_keys("p009", stolen)


@pytest.mark.parametrize("at", [0, 32], ids=["seal", "mask"])
def test_a_key_with_which_nobody_agrees_keeps_nobody_else_out(at: int) -> None:
    one = Sum(5)
    for client in sorted(one.people):
        shown = one.people[client].answer(one.server.ask_keys(), 1)["keys"]
        if client == "p002":
            shown = shown[:at] + bytes(32) + shown[at + 32 :]
            with pytest.raises(MessageRefused, match=r"client 'p002', round 1: secure sum: keys"):
                one.server.take_keys(client, {"keys": shown})
        else:
            one.server.take_keys(client, {"keys": shown})
    one.shares()
    one.vectors()
    np.testing.assert_array_equal(one.unmask(), one.plain())
    assert len(one.server.sent) == 4


def test_what_somebody_kept_goes_on_in_another_process() -> None:
    one = Sum(4)

    def restart() -> None:
        for client, person in one.people.items():
            one.people[client] = Participant(client, 3, person.kept())

    one.keys()
    restart()
    one.shares()
    restart()
    one.vectors(but=["p003"])
    restart()
    np.testing.assert_array_equal(one.unmask(), one.plain())


@pytest.mark.parametrize(
    ("key", "value", "said"),
    [
        ("values", [b""], "another number"),
        ("values", [b"x", b"y", b"z"], "1 bytes, expected 82"),
        ("clients", ["p000", "p001", "p001"], "somebody twice"),
        ("clients", ["../x", "p001", "p002"], "clients: got"),
        ("clients", "p000", "expected a list"),
        ("weight", 0, "1 to 2"),
        ("each", True, "1 to 2"),
        ("session", b"short", "16 bytes"),
        ("round", 2, "round 2"),
        ("round", None, "its round and session"),
    ],
)
def test_bad_records_are_refused_by_name(key: str, value: Any, said: str) -> None:
    one = Sum(4)
    one.keys()
    one.shares()
    record = {**one.server.plans(LEVELS)["p003"].record(), key: value}
    with pytest.raises(MessageRefused, match="client 'p003', round 1: secure sum") as caught:
        Reader("p003", 1).plan(record)
    assert said in str(caught.value)
