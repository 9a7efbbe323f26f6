"""Who is admitted, asked again, and turned away."""

import pytest
from flwr.app import Message, RecordDict
from flwr.common.constant import ErrorCode

from strategies.rounds.link import Link
from strategies.rounds.nodes import (
    AGAIN_SECONDS,
    CRASHES,
    MISFIT_SECONDS,
    UNANSWERED_SECONDS,
    NodeRegistry,
)

from .scripted_grid import ScriptedGrid


def test_nodes_join_leave_and_come_back_under_another_id(grid: ScriptedGrid) -> None:
    registry = NodeRegistry()
    registry.refresh(Link(grid))
    assert registry.online == {"anna", "ben"} and registry.waiting == 0
    del grid.clients[2]
    grid.clients |= {3: "cleo"}
    registry.refresh(Link(grid))
    assert registry.online == {"anna", "cleo"} and registry.nodes["ben"] == 2
    grid.clients[4] = "ben"
    registry.refresh(Link(grid))
    assert registry.online == {"anna", "ben", "cleo"} and registry.nodes["ben"] == 4
    registry.refresh(Link(grid))
    assert grid.asked == [1, 2, 3, 4]  # nobody is asked twice


def test_a_node_that_comes_back_is_who_it_was(grid: ScriptedGrid) -> None:
    registry = NodeRegistry()
    registry.refresh(Link(grid))
    del grid.clients[2]
    registry.refresh(Link(grid))
    assert registry.online == {"anna"}
    grid.clients[2] = "ben"
    registry.refresh(Link(grid))
    assert registry.online == {"anna", "ben"} and grid.asked == [1, 2]


def test_a_refused_double_is_asked_again_once_the_first_has_gone(
    grid: ScriptedGrid, caplog: pytest.LogCaptureFixture
) -> None:
    registry = NodeRegistry()
    registry.refresh(Link(grid))
    grid.clients[7] = "anna"
    registry.refresh(Link(grid))
    assert registry.nodes["anna"] == 1 and "two nodes, 1 and 7" in caplog.text
    registry.refresh(Link(grid))
    assert grid.asked == [1, 2, 7]
    del grid.clients[1]
    registry.refresh(Link(grid))
    assert registry.nodes["anna"] == 7 and registry.online == {"anna", "ben"}
    assert registry.turned_away == {}


def test_of_two_that_come_together_the_smaller_node_id_is_admitted(grid: ScriptedGrid) -> None:
    grid.clients = {9: "anna", 4: "anna", 6: "ben"}
    registry = NodeRegistry()
    registry.refresh(Link(grid))
    assert registry.nodes == {"anna": 4, "ben": 6} and list(registry.turned_away) == [9]


def test_the_old_node_of_a_client_that_moved_is_a_double(grid: ScriptedGrid) -> None:
    registry = NodeRegistry()
    registry.refresh(Link(grid))
    del grid.clients[2]
    grid.clients[5] = "ben"
    registry.refresh(Link(grid))
    grid.clients[2] = "ben"
    registry.refresh(Link(grid))
    assert registry.nodes["ben"] == 5 and "two nodes, 5 and 2" in registry.turned_away[2]


def test_who_is_turned_away_is_forgotten_and_not_asked_again(
    grid: ScriptedGrid, caplog: pytest.LogCaptureFixture
) -> None:
    registry = NodeRegistry()
    registry.refresh(Link(grid))
    registry.turn_away("ben", "too loud")
    assert registry.online == {"anna"} and list(registry.introductions) == ["anna"]
    registry.refresh(Link(grid))
    assert registry.online == {"anna"} and grid.asked == [1, 2]
    assert "node 2: too loud" in caplog.text


def test_who_answers_with_an_error_is_asked_again_but_not_at_once(grid: ScriptedGrid) -> None:
    grid.errors = {2: 2}
    registry = NodeRegistry()
    registry.refresh(Link(grid))
    assert registry.online == {"anna"} and registry.waiting == 0
    assert registry.turned_away == {2: "error 2: no luck"}
    grid.clock.now += AGAIN_SECONDS - 1
    registry.refresh(Link(grid))
    assert grid.asked == [1, 2]
    grid.errors = {}
    grid.clock.now += 1
    registry.refresh(Link(grid))
    assert registry.online == {"anna", "ben"} and grid.asked == [1, 2, 2]
    assert registry.turned_away == {}


def test_an_app_that_crashed_on_the_question_is_asked_again_at_once(grid: ScriptedGrid) -> None:
    grid.errors = {2: ErrorCode.CLIENT_APP_CRASHED}
    registry = NodeRegistry()
    for _ in range(9):
        registry.refresh(Link(grid))
    assert grid.asked == [1, *[2] * (1 + CRASHES)]
    assert registry.turned_away == {2: "error 8: no luck"}
    grid.errors = {}
    grid.clock.now += AGAIN_SECONDS
    registry.refresh(Link(grid))
    assert registry.online == {"anna", "ben"}


def test_a_silent_node_is_awaited_and_taken_when_it_answers(grid: ScriptedGrid) -> None:
    grid.silent = {2}
    registry = NodeRegistry()
    for _ in range(3):
        registry.refresh(Link(grid))
        grid.clock.now += 1
    assert registry.waiting == 1 and registry.online == {"anna"} and grid.asked == [1, 2]
    grid.answer(2)
    registry.refresh(Link(grid))
    assert registry.online == {"anna", "ben"} and registry.waiting == 0


def test_a_silent_node_that_left_and_came_back_is_asked_anew(grid: ScriptedGrid) -> None:
    grid.silent = {2}
    registry = NodeRegistry()
    registry.refresh(Link(grid))
    del grid.clients[2]
    registry.refresh(Link(grid))
    assert registry.waiting == 0
    grid.clients[2], grid.silent = "ben", set()
    registry.refresh(Link(grid))
    assert registry.online == {"anna", "ben"}


def test_a_question_that_nobody_got_is_asked_again(grid: ScriptedGrid) -> None:
    # The device was killed on it and is back before anybody looked: no error ever comes.
    grid.silent = {2}
    registry = NodeRegistry()
    registry.refresh(Link(grid))
    grid.silent = set()
    grid.clock.now += UNANSWERED_SECONDS - 1
    registry.refresh(Link(grid))
    assert grid.asked == [1, 2] and registry.waiting == 1
    grid.clock.now += 1
    registry.refresh(Link(grid))
    assert grid.asked == [1, 2, 2] and registry.waiting == 0
    assert registry.online == {"anna", "ben"}


def test_a_slow_node_may_answer_the_first_of_two_questions(grid: ScriptedGrid) -> None:
    grid.silent = {2}
    registry = NodeRegistry()
    registry.refresh(Link(grid))
    grid.answer(2)
    waiting, grid._replies = grid._replies, []
    grid.clock.now += UNANSWERED_SECONDS
    registry.refresh(Link(grid))
    assert grid.asked == [1, 2, 2] and registry.waiting == 1
    grid._replies = waiting
    registry.refresh(Link(grid))
    assert registry.online == {"anna", "ben"} and registry.waiting == 0
    grid.answer(2)  # to the second question, which is nobody's any more
    registry.refresh(Link(grid))
    assert registry.online == {"anna", "ben"}


def test_a_node_that_the_link_does_not_know_yet_is_asked_again(grid: ScriptedGrid) -> None:
    grid.unknown = {1}
    registry = NodeRegistry()
    registry.refresh(Link(grid))
    assert registry.nodes == {"ben": 2} and registry.waiting == 0
    grid.unknown = set()
    registry.refresh(Link(grid))
    assert registry.nodes == {"anna": 1, "ben": 2}


def test_an_answer_without_a_handshake_is_refused_for_long(
    grid: ScriptedGrid, monkeypatch: pytest.MonkeyPatch
) -> None:
    def empty(node: int, message: Message) -> Message:
        return Message(RecordDict(), reply_to=message)

    registry = NodeRegistry()
    with monkeypatch.context() as patch:
        patch.setattr(grid, "_answer", empty)
        registry.refresh(Link(grid))
    grid.clock.now += MISFIT_SECONDS - 1
    registry.refresh(Link(grid))
    assert set(registry.turned_away.values()) == {"no handshake in its answer"}
    assert registry.online == set() and grid.asked == [1, 2]
    # By then its device may have been upgraded, under the same node id.
    grid.clock.now += 1
    registry.refresh(Link(grid))
    assert registry.online == {"anna", "ben"} and registry.turned_away == {}
