"""A grid in virtual time: devices answer while they are there, and rounds are a real server's."""

import time
from contextlib import suppress
from itertools import pairwise

import pytest

from fedsub.engines.simulation import build_grid, build_strategy
from fedsub.fleet.clock import DaysOver, FleetClock
from fedsub.fleet.habits import DAY
from fedsub.testing.runs import assert_equal
from fedsub_core.config.run_config import RunConfig
from fedsub_core.data.sources import load_federation
from fedsub_core.errors import RunError
from fedsub_core.metrics import MetricRow
from strategies.rounds.server_half import State
from strategies.strategy import PersonalizedStrategy

from .conftest import ALWAYS, MakeFleet

Rows = list[MetricRow]


def run(config: RunConfig, grid: object) -> tuple[PersonalizedStrategy, Rows, list[float]]:
    """Run all rounds; return the strategy, its rows, and when each round ended."""
    strategy, rows, ends = build_strategy(config, config.method), list[MetricRow](), list[float]()

    def after(round: int, state: State, of_round: Rows) -> None:
        rows.extend(of_round)
        ends.append(grid.clock.now if hasattr(grid, "clock") else 0.0)

    strategy.on_round = after  # type: ignore[assignment]
    strategy.start(grid)  # type: ignore[arg-type]
    return strategy, rows, ends


def counted(rows: Rows, metric: str) -> dict[str, int]:
    return {row.client: int(row.value) for row in rows if row.metric == metric and row.value}


def test_where_all_are_there_states_are_those_of_any_engine(fleet: MakeFleet) -> None:
    config, grid = fleet(ALWAYS, ALWAYS, ALWAYS, rounds=4)
    strategy, rows, ends = run(config, grid)
    at_once = build_grid(config, config.method, load_federation(config.data))
    expected, _, _ = run(config, at_once)
    assert strategy.state is not None and expected.state is not None
    assert_equal(dict(strategy.state), dict(expected.state))
    assert len(counted(rows, "bytes_up_sent")) == 3
    # Each takes 5 to 15 s, and up to 3 s until its device looks.
    assert all(5 < later - before < 30 for before, later in pairwise(ends))


def test_a_night_takes_no_time(fleet: MakeFleet) -> None:
    """Nobody is there for a day: the server waits, and the test does not."""
    config, grid = fleet([(DAY, 2 * DAY)], [(DAY, 2 * DAY)], rounds=2)
    since = time.monotonic()
    _, _, ends = run(config, grid)
    assert ends[0] > DAY and time.monotonic() - since < 30


def test_who_goes_while_it_works_is_missing_and_comes_back(fleet: MakeFleet) -> None:
    config, grid = fleet(
        ALWAYS, ALWAYS, [(0.0, 12.0), (400.0, DAY)], rounds=40, **{"round-timeout": 300.0}
    )
    _, rows, _ = run(config, grid)
    missing = counted(rows, "missing_replies")
    assert missing == {"p3": 1}
    # Away, it is asked no more; once it is back it takes part, and nobody waited meanwhile.
    rounds = [row.round for row in rows if (row.client, row.metric) == ("p3", "bytes_up_sent")]
    assert rounds and max(rounds) == 40


def test_a_new_phone_begins_anew_under_the_same_id(fleet: MakeFleet) -> None:
    config, grid = fleet(ALWAYS, ALWAYS, phones={1: 100.0}, rounds=12)
    _, rows, _ = run(config, grid)
    assert counted(rows, "begins_anew").keys() == {"p2"}
    assert grid.node_of == {"p1": 1, "p2": 4}


def test_who_left_is_asked_no_more(fleet: MakeFleet) -> None:
    config, grid = fleet(ALWAYS, [(0.0, 60.0)], left={1: 60.0}, rounds=15)
    _, rows, ends = run(config, grid)
    last = [row.round for row in rows if (row.client, row.metric) == ("p2", "bytes_up_sent")][-1]
    assert ends[last - 1] < 200 and last < 15


@pytest.mark.parametrize("fault", ["crashed", "garbled"])
def test_faults_reach_the_servers_own_protections(
    fleet: MakeFleet, fault: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    config, grid = fleet(ALWAYS, ALWAYS, ALWAYS, rounds=2)
    monkeypatch.setattr("fedsub.fleet.grid.FAULTS", (fault,))
    strategy, _, _ = run(config, grid)  # the handshake, and a state
    grid.faults = 1.0
    with suppress(RunError):  # of none is usable, or the server goes back
        strategy.run_round(grid, 3, 600.0, True)
    refused = strategy.transport.refused
    assert refused.keys() == {"p1", "p2", "p3"}
    assert all(("by the seed" in why) == (fault == "crashed") for _, why in refused.values())


def test_a_clock_goes_on_to_the_next_event_and_no_further_than_it_may() -> None:
    events = [30.0]
    clock = FleetClock(100.0, lambda: events[0])
    clock.wait(0.2)
    assert clock.now == 30.0
    events[0] = 99.0
    clock.wait(0.2, until=31.0)
    assert clock.now == 31.0
    clock.wait(0.2)
    assert clock.now == 91.0
    with pytest.raises(DaysOver):
        clock.skip(100.0)
