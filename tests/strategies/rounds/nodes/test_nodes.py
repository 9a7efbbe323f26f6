"""Who is admitted, heard again, and turned away."""

from __future__ import annotations

from typing import Any

import pytest
from flwr.app import Message, RecordDict

from strategies.rounds.nodes import AGAIN_SECONDS, UNANSWERED_SECONDS, Reception


def test_nodes_join_leave_and_come_back_under_another_id(town: Any) -> None:
    reception = Reception()
    reception.look(town)
    assert reception.online == {"anna", "ben"} and reception.waiting == 0
    del town.clients[2]
    town.clients |= {3: "cleo"}
    reception.look(town)
    assert reception.online == {"anna", "cleo"} and reception.nodes["ben"] == 2
    town.clients[4] = "ben"
    reception.look(town)
    assert reception.online == {"anna", "ben", "cleo"} and reception.nodes["ben"] == 4
    reception.look(town)
    assert town.asked == [1, 2, 3, 4]  # nobody is asked twice


def test_a_node_that_comes_back_is_who_it_was(town: Any) -> None:
    reception = Reception()
    reception.look(town)
    del town.clients[2]
    reception.look(town)
    assert reception.online == {"anna"}
    town.clients[2] = "ben"
    reception.look(town)
    assert reception.online == {"anna", "ben"} and town.asked == [1, 2]


def test_a_refused_double_is_heard_again_once_the_first_has_gone(
    town: Any, caplog: pytest.LogCaptureFixture
) -> None:
    reception = Reception()
    reception.look(town)
    town.clients[7] = "anna"
    reception.look(town)
    assert reception.nodes["anna"] == 1 and "two nodes, 1 and 7" in caplog.text
    reception.look(town)
    assert town.asked == [1, 2, 7]
    del town.clients[1]
    reception.look(town)
    assert reception.nodes["anna"] == 7 and reception.online == {"anna", "ben"}
    assert reception.turned_away == {}


def test_of_two_that_come_together_the_smaller_node_id_is_admitted(town: Any) -> None:
    town.clients = {9: "anna", 4: "anna", 6: "ben"}
    reception = Reception()
    reception.look(town)
    assert reception.nodes == {"anna": 4, "ben": 6} and list(reception.turned_away) == [9]


def test_the_old_node_of_a_client_that_moved_is_a_double(town: Any) -> None:
    reception = Reception()
    reception.look(town)
    del town.clients[2]
    town.clients[5] = "ben"
    reception.look(town)
    town.clients[2] = "ben"
    reception.look(town)
    assert reception.nodes["ben"] == 5 and "two nodes, 5 and 2" in reception.turned_away[2]


def test_who_is_turned_away_is_forgotten_and_not_asked_again(
    town: Any, caplog: pytest.LogCaptureFixture
) -> None:
    reception = Reception()
    reception.look(town)
    reception.turn_away("ben", "too loud")
    assert reception.online == {"anna"} and list(reception.openings) == ["anna"]
    reception.look(town)
    assert reception.online == {"anna"} and town.asked == [1, 2]
    assert "node 2: too loud" in caplog.text


def test_who_answers_with_an_error_is_asked_again_but_not_at_once(town: Any) -> None:
    town.errors = {2: 2}
    reception = Reception()
    reception.look(town)
    assert reception.online == {"anna"} and reception.waiting == 0
    assert reception.turned_away == {2: "error 2: no luck"}
    town.clock.now += AGAIN_SECONDS - 1
    reception.look(town)
    assert town.asked == [1, 2]
    town.errors = {}
    town.clock.now += 1
    reception.look(town)
    assert reception.online == {"anna", "ben"} and town.asked == [1, 2, 2]
    assert reception.turned_away == {}


def test_a_silent_node_is_awaited_and_heard_when_it_speaks(town: Any) -> None:
    town.silent = {2}
    reception = Reception()
    for _ in range(3):
        reception.look(town)
        town.clock.now += 1
    assert reception.waiting == 1 and reception.online == {"anna"} and town.asked == [1, 2]
    town.speak(2)
    reception.look(town)
    assert reception.online == {"anna", "ben"} and reception.waiting == 0


def test_a_silent_node_that_left_and_came_back_is_asked_anew(town: Any) -> None:
    town.silent = {2}
    reception = Reception()
    reception.look(town)
    del town.clients[2]
    reception.look(town)
    assert reception.waiting == 0
    town.clients[2], town.silent = "ben", set()
    reception.look(town)
    assert reception.online == {"anna", "ben"}


def test_a_question_that_nobody_heard_is_asked_again(town: Any) -> None:
    # The device was killed on it and is back before anybody looked: no error ever comes.
    town.silent = {2}
    reception = Reception()
    reception.look(town)
    town.silent = set()
    town.clock.now += UNANSWERED_SECONDS - 1
    reception.look(town)
    assert town.asked == [1, 2] and reception.waiting == 1
    town.clock.now += 1
    reception.look(town)
    assert town.asked == [1, 2, 2] and reception.waiting == 0
    assert reception.online == {"anna", "ben"}


def test_a_slow_node_may_answer_the_first_of_two_questions(town: Any) -> None:
    town.silent = {2}
    reception = Reception()
    reception.look(town)
    town.speak(2)
    waiting, town._replies = town._replies, []
    town.clock.now += UNANSWERED_SECONDS
    reception.look(town)
    assert town.asked == [1, 2, 2] and reception.waiting == 1
    town._replies = waiting
    reception.look(town)
    assert reception.online == {"anna", "ben"} and reception.waiting == 0
    town.speak(2)  # to the second question, which is nobody's any more
    reception.look(town)
    assert reception.online == {"anna", "ben"}


def test_a_node_that_the_link_does_not_know_yet_is_asked_again(town: Any) -> None:
    town.unknown = {1}
    reception = Reception()
    reception.look(town)
    assert reception.nodes == {"ben": 2} and reception.waiting == 0
    town.unknown = set()
    reception.look(town)
    assert reception.nodes == {"anna": 1, "ben": 2}


def test_an_answer_without_an_opening_is_refused_for_good(
    town: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def empty(node: int, message: Message) -> Message:
        return Message(RecordDict(), reply_to=message)

    monkeypatch.setattr(town, "_answer", empty)
    reception = Reception()
    reception.look(town)
    town.clock.now += 10 * AGAIN_SECONDS
    reception.look(town)
    assert set(reception.turned_away.values()) == {"no opening in its answer"}
    assert reception.online == set() and town.asked == [1, 2]
