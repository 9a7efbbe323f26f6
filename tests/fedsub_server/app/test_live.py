"""What the server says of itself while it runs, and that it says it of nobody who was forgotten."""

import json
import math
from pathlib import Path
from typing import Any

import pytest

from fedsub.status.facts import Verdict
from fedsub.status.reading import read_status
from fedsub_server.forgetting import forget
from fedsub_server.live import Live
from fedsub_server.live_file import LIVE_FILE, read_live


@pytest.fixture
def served(data: str, tmp_path: Path, configuration: Any, serve: Any, devices: Any) -> Path:
    """The folder of a run that has ended."""
    weak = {"capacities": "ben=1/2"}
    config = configuration(data, tmp_path / "run", method="fedavg", rounds=2, **weak)
    serve(devices(config, tmp_path / "devices"), config)
    return tmp_path / "run"


def test_what_is_known_at_the_end(served: Path) -> None:
    live = read_live(served)
    assert live is not None and live["ended"] == "finished"
    assert (served / LIVE_FILE).stat().st_mode & 0o777 == 0o600
    assert (live["method"], live["round"], live["finished"], live["rounds"]) == ("fedavg", 2, 2, 2)
    assert set(live["people"]) == {"anna", "ben", "cleo"} and live["turned_away"] == {}
    for place, anna in enumerate(live["people"].values()):
        assert (anna["node"], anna["usable"], anna["refused"]) == (place + 1, 2, None)
        assert anna["version"] and anna["online"] and math.isfinite(anna["seconds"])
    assert [one["capacity"] for one in live["people"].values()] == [1.0, 0.5, 1.0]
    found = read_status(served)
    assert found.state == "finished" and found.troubles == ()
    assert [person.node for person in found.people] == [1, 2, 3]


def test_a_run_that_fails_says_why(
    data: str, tmp_path: Path, configuration: Any, serve: Any, devices: Any, killed: Any
) -> None:
    config = configuration(data, tmp_path / "run", method="fedavg", rounds=2)
    with pytest.raises(killed):
        serve(devices(config, tmp_path / "devices", kill=8), config)
    live = read_live(tmp_path / "run")
    assert live is not None and live["ended"] == "Killed()" and live["finished"] == 1
    assert live["round"] == 2 and live["phase"] == "training"
    found = read_status(tmp_path / "run")
    assert found.state == "stopped" and "after round 1 of 2: Killed()." in found.troubles[0].text


def test_who_is_forgotten_is_not_named(served: Path) -> None:
    assert "anna" in (served / LIVE_FILE).read_text()
    forget(served, "anna")
    assert "anna" not in (served / LIVE_FILE).read_text()
    found = read_status(served)
    states = {person.client: person.state for person in found.people}
    assert states == {"(forgotten 1)": "forgotten", "ben": "trained", "cleo": "trained"}
    assert found.verdict is Verdict.WELL and len(found.expected) == 2


def test_a_run_goes_on_without_whom_it_forgot_though_the_device_comes(
    served: Path,
    data: str,
    tmp_path: Path,
    configuration: Any,
    serve: Any,
    devices: Any,
    result: Any,
    caplog: pytest.LogCaptureFixture,
) -> None:
    forget(served, "anna")
    # `local` has not begun: it has nobody to forget, and leaves out whom the run forgot.
    more = {"method": "fedavg", "beside": "local", "capacities": "ben=1/2"}
    config = configuration(data, served, rounds=3, **more)
    serve(devices(config, tmp_path / "devices"), config)
    for method, before in (("fedavg", 2), ("local", 0)):
        asked = {row.client for row in result(config, method)[2] if row.round > before}
        assert asked - {""} == {"ben", "cleo"}, method
    found = read_status(served)
    assert (found.state, found.verdict, [*found.troubles]) == ("finished", Verdict.WELL, [])
    assert not [path for path in served.rglob("*.*") if b"anna" in path.read_bytes()]
    assert "whom this run was told to forget" in caplog.text and "client anna" not in caplog.text


def test_it_is_written_where_something_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from fedsub.engines.simulation import build_strategy
    from fedsub_core.config.run_config import read_config
    from fedsub_server import live

    strategy = build_strategy(read_config(None, {"method": "fedavg"}), "fedavg")
    written: list[dict[str, Any]] = []
    monkeypatch.setattr(live, "LOOK_SECONDS", 0.001)
    monkeypatch.setattr(live, "write_whole", lambda path, data: written.append(json.loads(data)))
    with Live(tmp_path, strategy) as kept:
        while len(written) < 2:  # once at the start, once at the first look
            kept._over.wait(0.01)
        kept._over.wait(0.1)
        assert len(written) == 2, "nothing has changed since"
        strategy.transport.refused["ann"] = 3, "rubbish"
        strategy.memory.patience.again["ann"] = 9
        while len(written) < 3:
            kept._over.wait(0.01)
    assert written[2]["people"]["ann"]["refused"] == [3, "rubbish"]
    assert written[2]["people"]["ann"]["rests_until"] == 9
    assert [one["ended"] for one in written] == [None, None, None, "finished"]
