"""How long a run waits for its clients, before it starts and between its rounds."""

from __future__ import annotations

from typing import Any

import pytest

from fedsub_core.config.run_config import RunConfig, read_config
from fedsub_core.errors import RunError
from strategies.rounds.handshake import Federation, open_federation


def settings(**keys: Any) -> RunConfig:
    return read_config(None, {"beside": "", "join-timeout": 20.0, **keys})


def test_a_double_of_a_client_that_was_turned_away_may_be_the_one_that_fits(town: Any) -> None:
    town.clients |= {3: "cleo", 7: "anna"}
    town.odd = {1}
    federation = open_federation(town, settings())
    assert federation.nodes == {"ben": 2, "cleo": 3}
    federation.gather(town, settings())
    assert federation.nodes == {"anna": 7, "ben": 2, "cleo": 3}
    assert list(federation.reception.turned_away) == [1]


def test_the_opening_waits_for_enough(town: Any) -> None:
    town.clients[3] = "cleo"
    town.arrivals = {2: 4.0, 3: 9.0}
    federation = open_federation(town, settings(**{"min-clients": 3}))
    assert federation.clients == ["anna", "ben", "cleo"]
    assert 9.0 <= town.seconds < 9.5


def test_the_opening_waits_for_answers_but_not_for_ever(town: Any) -> None:
    town.silent = {2}
    federation = open_federation(town, settings())
    assert federation.clients == ["anna"]
    assert 20.0 <= town.seconds < 20.5
    # A round does not wait for who has not said who it is.
    since = town.clock.now
    federation.gather(town, settings())
    assert town.clock.now == since
    town.speak(2)
    federation.gather(town, settings())
    assert federation.reception.online == {"anna", "ben"}


def test_who_does_not_fit_is_none_of_enough(town: Any) -> None:
    town.clients |= {3: "cleo", 4: "dora"}
    town.odd, town.arrivals = {2}, {4: 9.0}
    federation = open_federation(town, settings(**{"min-clients": 3}))
    assert federation.clients == ["anna", "cleo", "dora"]
    assert 9.0 <= town.seconds < 9.5


def test_nor_is_it_once_the_run_is_on(town: Any) -> None:
    keys = {"min-clients": 2}
    federation = open_federation(town, settings(**keys))
    del town.clients[2]
    town.clients |= {3: "cleo", 4: "dora"}
    town.odd, town.arrivals = {3}, {4: 9.0}
    federation.gather(town, settings(**keys))
    assert federation.reception.online == {"anna", "dora"}
    assert 9.0 <= town.seconds < 9.5


def test_too_few_is_said_when_the_time_is_up_and_why(town: Any) -> None:
    town.clients |= {3: "cleo", 4: "dora", 5: "anna", 6: "emil"}
    town.odd, town.errors, town.silent = {3}, {4: 2}, {6}
    with pytest.raises(RunError) as caught:
        open_federation(town, settings(**{"min-clients": 3}))
    assert 20.0 <= town.seconds < 20.5
    said = str(caught.value)
    assert said.startswith("2 of at least 3 clients after 20 s (turned away: node 3: client 'cleo'")
    assert "node 4: error 2: no luck; node 5: client id 'anna' came from two nodes, 1 and 5" in said
    assert "; 1 connected but did not answer)" in said


def test_who_left_before_the_start_has_no_vote(town: Any) -> None:
    town.clients |= {3: "cleo", 4: "dora", 5: "emil"}
    town.odd, town.arrivals, town.departures = {1, 2}, {5: 5.0}, {3: 5.0, 4: 5.0}
    # Until emil comes three are needed; then anna and ben are most of those who are there.
    with pytest.raises(RunError, match=r"2 of at least 3 clients .*node 5: client 'emil': classes"):
        open_federation(town, settings(**{"min-clients": 3}))


def test_a_federation_that_is_recalled_admits_only_who_fits_it(town: Any) -> None:
    config = settings()
    first = open_federation(town, config)
    again = Federation.of(first.tensors(), config)
    town.clients |= {3: "cleo", 4: "dora", 5: "emil"}
    town.odd = {3, 4, 5}  # most of those who are there
    again.gather(town, config, all_answers=True)
    assert again.clients == ["anna", "ben"] and again.scaling is not None
    assert again.scaling.mean.tolist() == first.scaling.mean.tolist()  # type: ignore[union-attr]
