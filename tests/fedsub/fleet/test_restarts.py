"""A server that starts again for each round goes on with who is late, and with who has a pause."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from fedsub.engines.simulation import build_strategy
from fedsub.fleet.grid import FleetGrid
from fedsub_core.config.run_config import RunConfig
from fedsub_server.driver import drive
from fedsub_server.resuming import decisive
from fedsub_server.rundb import RunDatabase
from strategies.methods.fedsub_ridge.strategy import FedSubRidgeServer
from strategies.rounds.awaited import Awaited, UploadTimes
from strategies.strategy import PersonalizedStrategy

from .conftest import ALWAYS, MakeFleet

SOME: dict[str, Any] = {"clients-per-round": 2, "ask": 1.5, "late-hours": 1.0}


def started_again(
    config: RunConfig, grid: FleetGrid, path: Path, rounds: int
) -> PersonalizedStrategy:
    """Run the rounds up to a number in a process of their own, whose messages end with it."""
    strategy = build_strategy(replace(config, rounds=rounds), config.method)
    with RunDatabase(path, decisive(config, config.method)) as database:
        drive(strategy, grid, database, progress=lambda round: None)
    grid._jobs.clear()  # as a SuperLink: a run's messages end with it, and devices go on
    grid._replies.clear()
    return strategy


def late(path: Path) -> dict[int, float]:
    """Return the age of each late upload of the slow one, by the round in which it counted."""
    with RunDatabase(path) as database:
        rows = list(database.metrics())
    return {r.round: r.value for r in rows if (r.metric, r.client) == ("late_upload", "p3")}


@pytest.mark.parametrize("method", ["fedsub-ridge", "fedavg"])
@pytest.mark.parametrize("asynchronous", [False, True])
def test_a_late_upload_counts_after_a_restart(
    fleet: MakeFleet, tmp_path: Path, method: str, asynchronous: bool
) -> None:
    keys = {**SOME, "method": method, "asynchronous": asynchronous, "evaluate-every": 100}
    config, grid = fleet(ALWAYS, ALWAYS, ALWAYS, work={2: 40.0}, **keys)
    path = tmp_path / "state.db"
    first = started_again(config, grid, path, 1)
    assert first.memory.upload_times.awaited["p3"].round == 1 and "p3" not in first.transport.usable
    worked = grid.worked["p3"]
    # What it did takes no time again.
    grid.people = {**grid.people, "p3": replace(grid.people["p3"], work=1.0)}
    for rounds in range(2, 12):
        last = started_again(config, grid, path, rounds)
        if late(path):
            break
    assert last.transport.usable["p3"] == 1, "the round that it was asked for at first"
    assert late(path) == {rounds: rounds - 1}
    assert "p3" not in last.memory.upload_times.awaited, "it counts once"
    assert grid.worked["p3"] > worked, "it was asked again, and answered from its state"


def test_what_is_too_late_is_forgotten_and_who_is_gone_is_waited_for(
    fleet: MakeFleet, tmp_path: Path
) -> None:
    config, grid = fleet(ALWAYS, ALWAYS, [(0.0, 12.0), (900.0, 90000.0)], **SOME)
    path = tmp_path / "state.db"
    for rounds in range(1, 4):
        found = started_again(config, grid, path, rounds)
    assert found.memory.upload_times.awaited["p3"].round == 1, "its node is not there: it stays"
    grid.clock.skip(5000.0)  # an hour after, it counts no more
    assert started_again(config, grid, path, 4).transport.usable.get("p3") in (None, 4)
    assert not late(path)


def test_a_pause_goes_on_after_a_restart(fleet: MakeFleet, tmp_path: Path) -> None:
    keys = {"clients-per-round": 2, "pause-hours": 1.0, "quorum": 0.0, "evaluate-every": 100}
    config, grid = fleet(*[ALWAYS] * 4, **keys)
    path = tmp_path / "state.db"
    asked = []
    for rounds in (1, 2, 3):
        grid.clock.skip(3700.0 * (rounds == 3))
        found = started_again(config, grid, path, rounds)
        asked.append({c for c, number in found.transport.usable.items() if number == rounds})
    assert [len(each) for each in asked] == [2, 2, 2] and not asked[0] & asked[1]
    # A clock that went back ends a pause: in 1970 nobody would ever be asked.
    times = found.memory.upload_times
    assert times.paused(grid.clock.wall, 1.0) and not times.paused(0.0, 1.0)


@pytest.mark.parametrize("before", [False, True])
def test_an_upload_before_one_that_counted_is_awaited_no_more(
    fleet: MakeFleet, tmp_path: Path, before: bool
) -> None:
    config, grid = fleet(ALWAYS, ALWAYS, ALWAYS, work={2: 40.0}, **SOME)
    found = started_again(config, grid, tmp_path / "state.db", 1)
    found.transport.usable["p3"] = 0 if before else 2
    found.memory.upload_times.note(found.connection)
    assert ("p3" in found.memory.upload_times.awaited) == before


def test_a_run_that_takes_late_uploads_no_more_forgets_them(
    fleet: MakeFleet, tmp_path: Path
) -> None:
    config, grid = fleet(ALWAYS, ALWAYS, ALWAYS, work={2: 40.0}, **SOME)
    path = tmp_path / "state.db"
    started_again(config, grid, path, 1)
    last = started_again(replace(config, late_hours=0.0), grid, path, 2)
    assert not last.asked_again and not last.memory.upload_times.tensors()


def test_a_download_is_kept_as_long_as_somebody_is_awaited() -> None:
    times = UploadTimes()
    for client, name in (("p1", "one"), ("p2", "both"), ("p3", "both")):
        times.awaited[client] = Awaited(1, 9e9, name)
        times.sent[name] = torch.zeros(1)
    for client, left in (("p1", {"both"}), ("p2", {"both"}), ("p3", set())):
        times.forget(client)
        assert times.sent.keys() == left


def test_what_was_awaited_of_an_undone_state_is_awaited_no_more(
    fleet: MakeFleet, tmp_path: Path
) -> None:
    config, grid = fleet(ALWAYS, ALWAYS, ALWAYS, work={2: 40.0}, **SOME)
    found = started_again(config, grid, tmp_path / "state.db", 1)
    # As after a restart.
    found.memory.upload_times.again, found.transport.asked = {"p3"}, ("p1", "p2")
    # What is gone back to where those who led the others astray are not in the last rounds.
    found.undoing.undo = lambda left_out, begin: (begin(), [])  # type: ignore[method-assign]
    assert found._recover(2, "")
    found.memory.upload_times.note(found.connection)
    assert not found.memory.upload_times.awaited


@pytest.mark.parametrize(
    ("keys", "few", "again"),
    [
        ({}, False, True),
        ({}, True, False),
        ({"quorum": 0.0}, True, True),
        ({"min-clients": 2}, False, True),
        ({"min-clients": 3}, False, False),
    ],
)
def test_nobody_is_asked_again_where_too_few_would_be_left(
    fleet: MakeFleet, tmp_path: Path, keys: dict[str, Any], few: bool, again: bool
) -> None:
    """Of three people one is awaited; or two are, and the round needs two uploads."""
    slow = {2: 40.0} | ({1: 40.0} if few else {})
    config, grid = fleet(ALWAYS, ALWAYS, ALWAYS, work=slow, **SOME, **{"quorum": 1.0} | keys)
    path = tmp_path / "state.db"
    started_again(replace(config, quorum=0.0, round_timeout=20.0), grid, path, 1)
    assert bool(started_again(config, grid, path, 2).asked_again) == again


def test_a_round_that_wants_all_is_asked_of_all(
    fleet: MakeFleet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config, grid = fleet(ALWAYS, ALWAYS, ALWAYS, work={2: 40.0}, **SOME)
    path = tmp_path / "state.db"
    started_again(config, grid, path, 1)
    monkeypatch.setattr(FedSubRidgeServer, "wants_all", lambda half, turn: True)
    assert started_again(config, grid, path, 2).transport.usable["p3"] == 2
