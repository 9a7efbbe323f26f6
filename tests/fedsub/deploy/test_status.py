"""A real deployment in which a device dies: its status says who, and its files are private."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from fedsub.deploy.components import HOST
from fedsub.engines.rehearsal import Rehearsal
from fedsub.status.facts import Status, Verdict
from fedsub.status.reading import read_status
from fedsub.status.superlink import read_superlink, state_of
from fedsub_core.config.run_config import read_config
from fedsub_core.data.federation import Federation, write_federation
from fedsub_core.logs import LOG_FORMAT

from ..commands.calls import assert_refused
from .private_files import assert_private

pytestmark = pytest.mark.slow


def test_who_died_is_waited_for_and_the_run_is_not_disturbed(
    town: Callable[..., Federation], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_federation(tmp_path / "data", town(3))
    keys: dict[str, str | int | float | bool] = {
        "method": "fedavg",
        "beside": "",
        "rounds": 2,
        "round-timeout": 12,
        "data": str(tmp_path / "data"),
        "out": str(tmp_path / "out"),
    }
    rehearsal = Rehearsal(read_config(None, keys), 3, print, print)
    looks: list[Status] = []
    ca = rehearsal.place.credentials.ca
    monkeypatch.setenv(LOG_FORMAT, "json")
    before = os.umask(0)
    try:
        with rehearsal.up():
            stopped: list[int] = []
            for finished in rehearsal.follow(rehearsal.submit()):
                if (rehearsal.place.run / "run.toml").is_file():
                    looks.append(read_status(rehearsal.place.folder))
                if finished >= 1 and not stopped:
                    link = read_superlink(f"{HOST}:{rehearsal.port}", ca.read_bytes())
                    assert (link.state, link.troubles) == ("going on", [])
                    assert [(n.name, state_of(n)) for n in link.nodes] == [
                        (f"p{i}", "connected") for i in (1, 2, 3)
                    ]
                    assert link.runs[0].status == "running" and link.runs[0].bytes_up > 0
                if finished >= 1 and not stopped:
                    # Stopped, not killed: what dies is started again here.
                    stopped = [
                        child.process.pid
                        for child in rehearsal.supervisor.children
                        if child.name.startswith("supernode-p2")
                    ]
                    for process in stopped:
                        os.kill(process, signal.SIGSTOP)
            for process in stopped:
                os.kill(process, signal.SIGKILL)  # it would not hear that it is to end
    finally:
        os.umask(before)
    assert any(look.state == "going on" and look.waited_for == ("p2",) for look in looks)
    waited = next(look for look in looks if look.waited_for == ("p2",))
    people = {person.client: person for person in waited.people}
    assert people["p2"].state in ("waited for", "away") and people["p1"].since
    assert len({person.node for person in waited.people}) == 3 and waited.certificate_days
    last = read_status(rehearsal.place.folder)
    assert (last.kind, last.state, last.finished) == ("deployment", "finished", 2)
    assert last.verdict in (Verdict.WELL, Verdict.TROUBLE)
    gone = {person.client: person for person in last.people}["p2"]
    assert gone.usable is not None and gone.usable < 2 and gone.failed >= 1
    assert_private(rehearsal.place.folder)
    for name in ("superlink", "supernode-p1"):
        log = rehearsal.place.log(name).read_text()
        # Flower's web server writes lines of its own.
        ours = [json.loads(line) for line in log.splitlines() if line.startswith("{")]
        assert {one["logger"] for one in ours} <= {"fedsub", "flwr"} and ours, name
        assert "\x1b" not in log, name


def fedsub(*arguments: object) -> tuple[int, str, str]:
    """Call the command line; return exit code, standard output, standard error."""
    command = [sys.executable, "-m", "fedsub", *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    return done.returncode, done.stdout, done.stderr


class WithoutDevices(Rehearsal):
    """A rehearsal whose devices are registered, and never come."""

    def _start_devices(self) -> None:
        pass


def test_a_superlink_is_asked_from_afar(town: Callable[..., Federation], tmp_path: Path) -> None:
    write_federation(tmp_path / "data", town(2))
    places = {"data": str(tmp_path / "data"), "out": str(tmp_path / "out")}
    rehearsal = WithoutDevices(read_config(None, {"beside": "", **places}), 2, print, print)
    address, ca = f"{HOST}:{rehearsal.port}", rehearsal.place.credentials.ca
    with rehearsal.up():
        code, out, _ = fedsub("status", "--superlink", address, "--ca", ca)
        assert code == Verdict.STOPPED and f"superlink {address}: not begun" in out
        assert "0 of 2 registered nodes are connected" in out and "! p1, p2: never connected" in out
        code, out, _ = fedsub("status", "--superlink", address, "--ca", ca, "--json")
        told = json.loads(out)
        assert [(n["name"], n["is"], n["heard"]) for n in told["nodes"]] == [
            ("p1", "never", None),
            ("p2", "never", None),
        ]
        # Whose certificate this machine does not trust is not asked.
        assert_refused(fedsub("status", "--superlink", address), address, "expected HOST:PORT")
        fleet = f"{HOST}:{rehearsal.fleet}"
        assert_refused(fedsub("status", "--superlink", fleet, "--ca", ca), fleet, "got no answer")
    assert_refused(fedsub("status", "--superlink", address, "--ca", ca), address, "got no answer")
