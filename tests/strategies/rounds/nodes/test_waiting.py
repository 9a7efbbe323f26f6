"""How long a run waits for its clients, before it starts and between its rounds."""

import logging
from typing import Any

import flwr.superlink.grid
import pytest
from flwr.common.constant import ErrorCode

from fedsub.testing.refusals import refused
from fedsub_core.config.settings import RoundSettings
from fedsub_core.errors import RunError
from strategies.rounds.agreement import Agreement
from strategies.rounds.handshake import agree, gather
from strategies.rounds.link import Link
from strategies.rounds.nodes import UNANSWERED_SECONDS, NodeRegistry

from .scripted_grid import ScriptedGrid


def settings(**keys: Any) -> RoundSettings:
    return RoundSettings(rounds=3, **{"join_timeout": 20.0, **keys})


def agreed_on(grid: ScriptedGrid, **keys: Any) -> tuple[NodeRegistry, Agreement]:
    """Hold the handshake; return who is there and what was agreed on."""
    registry = NodeRegistry()
    return registry, agree(Link(grid), registry, settings(**keys))


def wait(grid: ScriptedGrid, registry: NodeRegistry, agreed: Agreement, **keys: Any) -> None:
    """Wait for a round's clients."""
    everybody = keys.pop("all_answers", False)
    gather(Link(grid), registry, settings(**keys), agreed, everybody)


def test_a_double_of_a_client_that_was_turned_away_may_be_the_one_that_fits(
    grid: ScriptedGrid,
) -> None:
    grid.clients |= {3: "cleo", 7: "anna"}
    grid.odd = {1}
    registry, agreed = agreed_on(grid)
    assert registry.nodes == {"ben": 2, "cleo": 3}
    wait(grid, registry, agreed)
    assert registry.nodes == {"anna": 7, "ben": 2, "cleo": 3}
    assert list(registry.turned_away) == [1]


def test_the_handshake_waits_for_enough(grid: ScriptedGrid) -> None:
    grid.clients[3] = "cleo"
    grid.arrivals = {2: 4.0, 3: 9.0}
    registry, _ = agreed_on(grid, min_clients=3)
    assert registry.online == {"anna", "ben", "cleo"}
    assert 9.0 <= grid.seconds < 9.5


def test_the_handshake_waits_for_more_than_half_to_say_the_same(grid: ScriptedGrid) -> None:
    grid.clients[3] = "cleo"
    grid.odd, grid.arrivals = {1}, {3: 9.0}
    registry, agreed = agreed_on(grid)
    assert registry.online == {"ben", "cleo"} and agreed.classes == ("a", "b")
    assert 9.0 <= grid.seconds < 9.5


def test_it_does_not_wait_for_that_for_ever(grid: ScriptedGrid) -> None:
    grid.odd = {1}
    with refused(RunError, "half of 2", "'anna'", "'ben'", "min-clients"):
        agreed_on(grid)
    assert 20.0 <= grid.seconds < 20.5


def test_the_handshake_waits_for_answers_but_not_for_ever(grid: ScriptedGrid) -> None:
    grid.silent = {2}
    registry, agreed = agreed_on(grid)
    assert registry.online == {"anna"}
    assert 20.0 <= grid.seconds < 20.5
    # A round does not wait for who has not said who it is.
    since = grid.clock.now
    wait(grid, registry, agreed)
    assert grid.clock.now == since
    grid.answer(2)
    wait(grid, registry, agreed)
    assert registry.online == {"anna", "ben"}


def test_a_run_waits_from_the_last_sign_of_life_on(grid: ScriptedGrid) -> None:
    grid.arrivals = {2: 15.0}
    with pytest.raises(RunError, match="2 of at least 3 clients after 20 s"):
        agreed_on(grid, min_clients=3)
    assert 35.0 <= grid.seconds < 35.5


def test_a_device_that_starts_slowly_is_waited_for_as_long_as_it_lives(grid: ScriptedGrid) -> None:
    grid.answers, grid.beat = {2: 150.0}, 15.0
    registry, _ = agreed_on(grid, min_clients=2)
    assert registry.online == {"anna", "ben"} and 150.0 <= grid.seconds < 150.5
    assert grid.asked == [1, 2]  # one question: each starts the device's programs


def test_a_device_that_lives_and_says_nothing_is_not_waited_for_for_ever(
    grid: ScriptedGrid,
) -> None:
    grid.silent, grid.beat = {2}, 15.0
    with pytest.raises(RunError, match="1 of at least 2 clients"):
        agreed_on(grid, min_clients=2)
    assert UNANSWERED_SECONDS <= grid.seconds < UNANSWERED_SECONDS + 40


def test_signs_of_life_hold_up_nobody_once_there_are_enough(grid: ScriptedGrid) -> None:
    grid.silent, grid.beat = {2}, 15.0
    registry, _ = agreed_on(grid)
    assert registry.online == {"anna"} and 20.0 <= grid.seconds < 20.5


def test_without_a_bound_a_run_waits_and_says_so_each_minute(
    grid: ScriptedGrid, caplog: pytest.LogCaptureFixture
) -> None:
    grid.clients[3], grid.arrivals, grid.silent = "cleo", {2: 500.0}, {3}
    with caplog.at_level(logging.INFO, "fedsub"):
        registry, _ = agreed_on(grid, min_clients=2, join_timeout=0.0)
    assert registry.online == {"anna", "ben"} and 500.0 <= grid.seconds < 500.5
    said = "waiting for devices: 1 of at least 2 can take part; 1 connected and starting"
    assert caplog.text.count(said) == 8


def test_without_a_bound_who_does_not_say_who_it_is_holds_up_the_start_for_two_minutes(
    grid: ScriptedGrid,
) -> None:
    grid.silent, grid.beat = {2}, 15.0
    registry, _ = agreed_on(grid, join_timeout=0.0)
    assert registry.online == {"anna"} and 120.0 <= grid.seconds < 120.5


def test_who_does_not_fit_is_none_of_enough(grid: ScriptedGrid) -> None:
    grid.clients |= {3: "cleo", 4: "dora"}
    grid.odd, grid.arrivals = {2}, {4: 9.0}
    registry, _ = agreed_on(grid, min_clients=3)
    assert registry.online == {"anna", "cleo", "dora"}
    assert 9.0 <= grid.seconds < 9.5


def test_nor_is_it_once_the_run_is_on(grid: ScriptedGrid) -> None:
    registry, agreed = agreed_on(grid, min_clients=2)
    del grid.clients[2]
    grid.clients |= {3: "cleo", 4: "dora"}
    grid.odd, grid.arrivals = {3}, {4: 9.0}
    wait(grid, registry, agreed, min_clients=2)
    assert registry.online == {"anna", "dora"}
    assert 9.0 <= grid.seconds < 9.5


def test_too_few_is_said_when_the_time_is_up_and_why(grid: ScriptedGrid) -> None:
    grid.clients |= {3: "cleo", 4: "dora", 5: "anna", 6: "emil"}
    grid.odd, grid.errors, grid.silent = {3}, {4: 2}, {6}
    with pytest.raises(RunError) as caught:
        agreed_on(grid, min_clients=3)
    assert 20.0 <= grid.seconds < 20.5
    said = str(caught.value)
    assert said.startswith("2 of at least 3 clients after 20 s (turned away: node 3: client 'cleo'")
    assert "node 4: error 2: no luck; node 5: client id 'anna' came from two nodes, 1 and 5" in said
    assert "; 1 connected but did not answer)" in said


def test_who_left_before_the_start_has_no_vote(grid: ScriptedGrid) -> None:
    grid.clients |= {3: "cleo", 4: "dora", 5: "emil"}
    grid.odd, grid.arrivals, grid.departures = {1, 2}, {5: 5.0}, {3: 5.0, 4: 5.0}
    # Until emil comes three are needed; then anna and ben are most of those who are there.
    with refused(RunError, "2 of at least 3", "node 5", "client 'emil'", "classes"):
        agreed_on(grid, min_clients=3)


def test_an_agreement_that_is_recalled_admits_only_who_fits_it(grid: ScriptedGrid) -> None:
    _, first = agreed_on(grid)
    recalled, registry = Agreement.of(first.tensors()), NodeRegistry()
    grid.clients |= {3: "cleo", 4: "dora", 5: "emil"}
    grid.odd = {3, 4, 5}  # most of those who are there
    wait(grid, registry, recalled, all_answers=True)
    assert registry.online == {"anna", "ben"} == set(registry.introductions)


class InMemoryGrid(ScriptedGrid):
    """Called as the Grid of Flower's simulation engine is."""


def test_where_flower_simulates_and_all_are_refused_nobody_is_waited_for(
    grid: ScriptedGrid,
) -> None:
    crashed = dict.fromkeys(grid.clients, ErrorCode.CLIENT_APP_CRASHED)
    simulated = InMemoryGrid(grid.clock, grid.clients, errors=crashed)
    with pytest.raises(RunError) as caught:
        agreed_on(simulated)
    assert simulated.seconds < 2
    said = str(caught.value)
    assert said.startswith("0 of at least 1 clients can take part (turned away: node 1: error ")
    assert said.endswith("Correct their data, or lower min-clients")
    # Real devices' files may be unreadable for a moment.
    with pytest.raises(RunError, match="0 of at least 1 clients after 20 s"):
        agreed_on(ScriptedGrid(grid.clock, grid.clients, errors=crashed))


def test_where_flower_simulates_who_may_still_answer_is_waited_for(grid: ScriptedGrid) -> None:
    simulated = InMemoryGrid(grid.clock, {**grid.clients, 3: "cleo"}, silent={1, 2})
    simulated.errors = {3: ErrorCode.CLIENT_APP_CRASHED}
    with pytest.raises(RunError, match="2 connected but did not answer"):
        agreed_on(simulated)
    assert simulated.seconds >= 20


def test_flowers_own_grid_is_known(grid: ScriptedGrid) -> None:
    simulated = object.__new__(flwr.superlink.grid.InMemoryGrid)
    assert Link(simulated).simulates and not Link(grid).simulates
