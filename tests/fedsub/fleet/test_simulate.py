"""`fedsub deploy simulate`: days that follow from the seed, in a folder that any run leaves."""

import csv
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from fedsub.fleet.habits import habits
from fedsub.fleet.people import fleet_of, how_made
from fedsub.fleet.simulate import FleetAsked, Simulated, simulate_fleet
from fedsub.report.report import write_report
from fedsub.testing.refusals import refused
from fedsub_core.config.run_config import read_config
from fedsub_core.data.sources import load_federation
from fedsub_core.errors import ConfigError, RunError
from fedsub_server.resuming import SERVER
from fedsub_server.rundb import RunDatabase

ASKED = FleetAsked(people=10, days=2, every=6.0, samples=30, faults=0.05)


def simulated(folder: Path, asked: FleetAsked = ASKED, **keys: object) -> Simulated:
    given = {"method": "fedsub-ridge", "beside": "", "rounds": 1000, "out": str(folder), **keys}
    return simulate_fleet(read_config(None, given), asked)  # type: ignore[arg-type]


def rows(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8") as file:
        return list(csv.DictReader(file))


def test_the_same_seed_gives_the_same_bits(tmp_path: Path) -> None:
    first, second = (simulated(tmp_path / name) for name in ("a", "b"))
    for name in ("days.csv", "people.csv", "fedsub-ridge/metrics.csv", "fedsub-ridge/server.log"):
        assert (first.folder / name).read_bytes() == (second.folder / name).read_bytes(), name
    states = []
    for one in (first, second):
        with RunDatabase(one.folder / "fedsub-ridge" / "state.db") as database:
            states.append(database.load()[1][SERVER])
    assert states[0].keys() == states[1].keys()
    assert all((states[0][name] == states[1][name]).all() for name in states[0])
    other = simulated(tmp_path / "c", seed=1)
    assert (other.folder / "days.csv").read_text() != (first.folder / "days.csv").read_text()


def test_days_say_who_was_served_and_the_report_works(tmp_path: Path) -> None:
    found = simulated(tmp_path)
    days, people = rows(found.folder / "days.csv"), rows(found.folder / "people.csv")
    assert [int(day["day"]) for day in days] == [1, 2]
    assert all(0 < int(day["rounds"]) <= 4 for day in days)
    served = [one for one in people if int(one["uploads"])]
    assert len(people) == 10 and len(served) == int(days[-1]["ever_served"]) > 5
    assert sum(int(day["uploads"]) for day in days) == sum(int(p["uploads"]) for p in people)
    assert 0.5 < float(days[-1]["f1"]) <= 1
    page, _ = write_report(found.folder)
    assert "who took part by round" in page.read_text()


def test_people_are_stretches_of_real_ones() -> None:
    real = load_federation("watch")
    fleet = fleet_of(real, 25, 40, 0)
    assert list(fleet.clients)[::24] == ["p01", "p25"]
    for number, one in enumerate(fleet.clients.values()):
        source = list(real.clients.values())[number % len(real.clients)]
        assert {row.tobytes() for row in one.x} <= {row.tobytes() for row in source.x}
        assert set(one.y.tolist()) == set(source.y.tolist()) and 30 <= len(one.y) <= 60
    assert "25 people are made of 10 real ones" in how_made(real, fleet)
    again = fleet_of(real, 25, 40, 0)
    assert all(again.clients[name].digest == fleet.clients[name].digest for name in fleet.clients)


def test_a_method_beside_is_refused(tmp_path: Path) -> None:
    with refused(ConfigError, "beside", got="local", expected="one method"):
        simulated(tmp_path, beside="local")
    assert not list(tmp_path.iterdir())


def test_days_without_a_round_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    nobody = replace(habits("p1", 1, 0), there=np.zeros((0, 2)))
    monkeypatch.setattr("fedsub.fleet.simulate.habits", lambda *_: nobody)
    with refused(RunError, "1 days", got="no round", expected="one at least"):
        simulated(tmp_path, FleetAsked(2, 1, every=8.0, samples=30))


def test_a_round_begins_by_who_is_there_then(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """p1 has a pause after the first round; p2 goes shortly before the hour of the second."""
    there = {"p1": [[0.0, 86400.0]], "p2": [[1000.0, 3500.0], [7200.0, 86400.0]]}
    own = replace(habits("p1", 1, 0), phones=(), left=np.inf, work=10.0)
    monkeypatch.setattr(
        "fedsub.fleet.simulate.habits",
        lambda client, *given: replace(own, there=np.array(there[client])),
    )
    asked = FleetAsked(people=2, days=1, every=1.0, samples=30)
    found = simulated(tmp_path, asked, **{"pause-hours": 23, "quorum": 0})
    first = {one["person"]: one["first_served_on_day"] for one in found.days.by_person(1)}
    assert first["p1"] < 0.01 and first["p2"] > 7200 / 86400
