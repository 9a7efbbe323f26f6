"""Devices of a fleet: what one that did not work for long holds is not in memory, and not lost."""

import pytest

from fedsub.fleet import devices
from fedsub.fleet.grid import FleetGrid
from fedsub.testing.runs import assert_equal

from .conftest import ALWAYS, MakeFleet
from .test_grid import counted, run


def files(grid: FleetGrid) -> set[str]:
    """Return whose states lie in files."""
    return {path.parent.name for path in grid._devices._folder.glob("*/*")}


@pytest.mark.parametrize("method", ["fedavg", "ditto", "fedsub-ridge"])
def test_where_memory_is_for_one_rounds_are_those_of_a_fleet_in_memory(
    method: str, fleet: MakeFleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    def ran() -> tuple[FleetGrid, dict, list]:  # type: ignore[type-arg]
        config, grid = fleet(ALWAYS, ALWAYS, ALWAYS, rounds=4, method=method)
        strategy, rows, ends = run(config, grid)
        assert strategy.state is not None
        return grid, dict(strategy.state), [*rows, *ends]

    grid, state, rows = ran()
    assert files(grid) == set() and len(grid._devices._bytes) == 3
    monkeypatch.setattr(devices, "IN_MEMORY", 0)
    bound, same, others = ran()
    assert_equal(state, same)
    assert rows == others
    assert len(bound._devices._bytes) == 1 and files(bound) == {"p1", "p2", "p3"}
    held = [len(held) for _, held in bound._devices._devices.values()]
    assert sorted(held) == [0, 0, 1]


def test_a_new_phone_has_nothing_of_what_was_put_away(
    fleet: MakeFleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(devices, "IN_MEMORY", 0)
    config, grid = fleet(ALWAYS, ALWAYS, phones={1: 100.0}, rounds=12)
    _, rows, _ = run(config, grid)
    assert counted(rows, "begins_anew").keys() == {"p2"}
