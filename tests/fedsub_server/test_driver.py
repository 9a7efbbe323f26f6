"""One driver of rounds: what it commits, when, and where it goes on."""

from pathlib import Path

import pytest
import torch

from fedsub.engines.simulation import build_grid, build_strategy
from fedsub.testing.runs import people
from fedsub_core.config.run_config import RunConfig, read_config
from fedsub_server.driver import drive
from fedsub_server.resuming import SERVER, decisive
from fedsub_server.rundb import RunDatabase

FOLKS = people(((0, 1, 2),) * 2)


def configured(rounds: int) -> RunConfig:
    return read_config(None, {"method": "ditto", "beside": "", "rounds": rounds, "device": "cpu"})


def go(path: Path, rounds: int, seconds: float, kept: bool = True) -> tuple[int, list[int]]:
    """Drive a run; return what `drive` does, and the rounds that it told of."""
    config, told = configured(rounds), list[int]()
    strategy, grid = build_strategy(config, "ditto"), build_grid(config, "ditto", FOLKS)
    with RunDatabase(path, decisive(config, "ditto")) as database:
        clients = grid if kept else None
        before = drive(
            strategy, grid, database, clients=clients, seconds=seconds, progress=told.append
        )
    grid.close()
    return before, told


@pytest.mark.parametrize(("seconds", "committed"), [(0.0, [1, 2, 3]), (1e9, [3])])
def test_rounds_are_committed_as_often_as_asked_and_the_last_always(
    seconds: float, committed: list[int], tmp_path: Path
) -> None:
    path = tmp_path / "state.db"
    assert go(path, 3, seconds) == (0, [0, 1, 2, 3])
    with RunDatabase(path) as database:
        assert list(database.seconds_by_round()) == committed
        assert database.meta()["server_seconds"].endswith(" 3")
        assert 0 < (database.server_seconds() or 0) < database.seconds() / 3
        assert {row.round for row in database.metrics("macro_f1")} == {1, 2, 3}


def test_it_goes_on_to_the_same_numbers(tmp_path: Path) -> None:
    whole, parts = tmp_path / "whole.db", tmp_path / "parts.db"
    go(whole, 3, 0.0)
    go(parts, 2, 0.0)
    assert go(parts, 3, 0.0) == (2, [2, 3])
    assert go(parts, 3, 0.0) == (3, [3])
    with RunDatabase(whole) as one, RunDatabase(parts) as other:
        (_, ours), (_, theirs) = one.load(), other.load()
        assert ours.keys() == theirs.keys() == {SERVER, "client/p1", "client/p2"}
        for group, tensors in ours.items():
            assert all(torch.equal(t, theirs[group][name]) for name, t in tensors.items())
        assert list(one.metrics()) == list(other.metrics())


def test_devices_that_keep_their_own_state_leave_the_servers_alone(tmp_path: Path) -> None:
    go(tmp_path / "state.db", 1, 0.0, kept=False)
    with RunDatabase(tmp_path / "state.db") as database:
        assert database.load()[1].keys() == {SERVER}
