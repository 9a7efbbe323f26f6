"""Who does not answer is asked less and less often, and forgiven by and by when it answers."""

import pytest
import torch
from flwr.app import Message, MessageType

from strategies.rounds.patience import (
    LONGEST,
    LONGEST_HOURS,
    MAKES_UP,
    PATIENCE,
    Patience,
)

from ..finished_run import MakePeople, RunMethod
from ..tampered_grid import Reply, Tamper


def asked_in(rounds: int, answers: set[int]) -> list[int]:
    """The rounds in which a client is asked that answers in some rounds alone."""
    patience, asked = Patience(), []
    for round in range(1, rounds + 1):
        if not patience.resting(["p", "other"], round):
            asked.append(round)
            patience.note(round, {"p": round in answers})
    return asked


def test_the_pause_doubles_up_to_a_bound() -> None:
    assert asked_in(70, set()) == [1, 2, 4, 8, 16, 32, 64]
    assert LONGEST == 32 and asked_in(140, set())[-2:] == [96, 128]


def test_an_answer_is_followed_by_a_question_and_makes_up_for_a_quarter_of_a_failure() -> None:
    assert MAKES_UP == 0.25
    assert asked_in(21, {8}) == [1, 2, 4, 8, 9, 13, 21]
    assert asked_in(4, {1, 2, 3, 4}) == [1, 2, 3, 4]
    # Who was silent for long is as before after 28 answers.
    long = set(range(128, 156))
    assert asked_in(160, long)[-31:] == [128, *range(129, 156), 156, 157, 159]


@pytest.mark.parametrize(("good", "failures"), [(1, 15), (2, 17), (3, 24), (4, 60), (9, 30)])
def test_no_good_answer_buys_a_bad_one(good: int, failures: int) -> None:
    """Who fails in more than one round of five, whatever it does between, rests ever longer."""
    patience, asked, bad = Patience(), 0, 0
    for round in range(1, 301):
        if patience.resting(["p", "other"], round):
            continue
        fails = asked % (good + 1) == good
        patience.note(round, {"p": not fails})
        asked, bad = asked + 1, bad + fails
    assert bad == failures


def test_who_is_forgotten_is_asked_as_if_it_came_for_the_first_time() -> None:
    patience = Patience()
    for round in range(1, 4):
        patience.note(round, {"p": False})
    patience.forget("p")
    assert patience == Patience()


def test_a_rest_ends_by_its_hours_and_where_the_clock_went_back() -> None:
    patience, day, night = Patience(), 86400.0, 2.0e9
    for round in range(1, 7):
        patience.note(round, {"p": False}, now=night)
    assert patience.again == {"p": 38}
    resting = [
        bool(patience.resting(["p", "q"], 7, night + hours * 3600))
        for hours in (0, LONGEST_HOURS - 0.1, LONGEST_HOURS, 24, 1e6)
    ]
    assert resting == [True, True, False, False, False]
    assert not patience.resting(["p", "q"], 7, 5.0), "a clock of 1970"
    assert patience.resting(["p", "q"], 7), "rounds alone"
    again = Patience.of(patience.tensors())
    assert again == patience and not again.resting(["p", "q"], 7, night + day)
    patience.note(7, {"p": True}, now=night + day)
    assert patience.since == {} and not patience.resting(["p", "q"], 8, night + day)


def test_a_rest_of_an_older_release_ends_by_rounds_alone() -> None:
    older = b'{"again": {"p": 9}, "failures": {"p": 3.0}}'
    kept = {f"{PATIENCE}facts": torch.frombuffer(bytearray(older), dtype=torch.uint8)}
    patience = Patience.of(kept)
    assert patience.resting(["p", "q"], 8, 2.0e9) == ["p"]
    assert patience.resting(["p", "q"], 9, 2.0e9) == []


def test_somebody_is_always_asked() -> None:
    patience = Patience()
    patience.note(1, {"p": False, "q": False})
    patience.note(2, {"p": False, "q": False})
    assert patience.resting(["p", "q"], 3) == []
    assert patience.resting(["p", "q", "r"], 3) == ["p", "q"]


def test_it_outlives_the_process() -> None:
    patience = Patience()
    assert patience.tensors() == {} and Patience.of({}) == patience
    patience.note(1, {"p": False, "q": True})
    assert Patience.of(patience.tensors()) == patience
    assert all(t.dtype == torch.uint8 for t in patience.tensors().values())


def silent_in(client: str, rounds: range) -> Tamper:
    def tamper(reply: Reply) -> Message | None:
        mine = reply.client == client and reply.kind != MessageType.QUERY
        return None if mine and reply.round in rounds else reply.message

    return tamper


@pytest.mark.parametrize("name", ["fedsub", "fedavg"])
def test_a_silent_client_costs_fewer_and_fewer_rounds_their_deadline(
    name: str, people: MakePeople, run_method: RunMethod
) -> None:
    run = run_method(people(), name, tamper=silent_in("p2", range(1, 11)), rounds=12)
    asked = [round for round, clients in run.grid.trained if "p2" in clients]
    assert asked == [1, 2, 4, 8]
    assert {r for r, c in run.metric("missing_replies")} == set(asked)
    assert set(run.metric("missing_replies").values()) == {1}, "a round waits once"
    assert [r for r, _ in run.metric("resting")] == [3, 5, 6, 7, 9, 10, 11, 12]
    assert not any("p2" in clients for round, clients in run.grid.evaluated if round < 11)


def test_who_trains_and_is_silent_when_it_is_evaluated_rests_too(
    people: MakePeople, run_method: RunMethod
) -> None:
    def tamper(reply: Reply) -> Message | None:
        mine = reply.client == "p2" and reply.kind == MessageType.EVALUATE
        return None if mine else reply.message

    run = run_method(people(), "fedavg", tamper=tamper, rounds=9)
    asked = [round for round, clients in run.grid.evaluated if "p2" in clients]
    assert asked == [1, 2, 4, 8]


def test_it_goes_on_as_it_was_after_a_restart(people: MakePeople, run_method: RunMethod) -> None:
    tamper = silent_in("p2", range(1, 99))
    whole = run_method(people(), "fedavg", tamper=tamper, rounds=6)
    kept = whole.strategy.lasting_state()
    again = type(whole.strategy)(whole.strategy.settings)
    again.resume(6, kept)
    assert set(again.state or {}) == set(whole.states[-1]) - {"patience.facts"}
    again.start(whole.grid, num_rounds=8)
    assert [r for r, clients in whole.grid.trained if "p2" in clients] == [1, 2, 4, 8]
