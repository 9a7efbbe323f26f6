"""A real deployment in which a device dies: its status says who, and its files are private."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from fedsub.engines.rehearsal import Rehearsal
from fedsub.status.facts import Status, Verdict
from fedsub.status.reading import read_status
from fedsub_core.config.run_config import read_config
from fedsub_core.data.federation import Federation, write_federation
from fedsub_core.logs import LOG_FORMAT

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
    monkeypatch.setenv(LOG_FORMAT, "json")
    before = os.umask(0)
    try:
        with rehearsal.up():
            stopped: list[int] = []
            for finished in rehearsal.follow(rehearsal.submit()):
                if (rehearsal.place.run / "run.toml").is_file():
                    looks.append(read_status(rehearsal.place.folder))
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
