"""A real deployment whose devices die, are slow or cheat: its status says who."""

import fcntl
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

from fedsub.deploy.components import HOST
from fedsub.engines.rehearsal import Rehearsal
from fedsub.status.facts import Status, Verdict
from fedsub.status.reading import read_status
from fedsub.status.shown import screen
from fedsub.status.superlink import read_superlink, state_of
from fedsub_core.config.run_config import read_config
from fedsub_core.data.federation import Federation, write_federation
from fedsub_core.logs import LOG_FORMAT

from ..commands.calls import assert_refused
from ..status.made_deployments import served
from .private_files import assert_private
from .tampered import tampered_path

pytestmark = pytest.mark.slow


#: Of five people: who sends what it should not, whose work takes long, and who dies after a round.
RUBBISH, SLOW, DEAD = "p3", "p2", ("p4", "p5")
#: How long the slow one's work waits in each round, and others wait for who is dead: seconds.
HELD, PATIENCE = 5.0, 14


@contextmanager
def slowed(state: Path) -> Iterator[None]:
    """Keep a device from its work for a while, again and again, by the lock on its state."""
    over = threading.Event()

    def hold() -> None:
        while not over.wait(0.1):
            with (state / "lock").open("w") as file:
                fcntl.flock(file, fcntl.LOCK_EX)
                over.wait(HELD)

    thread = threading.Thread(target=hold)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def draw(status: Status, folder: Path, place: Path) -> None:
    """Write pictures of what an operator sees in a terminal and in a browser, by a browser."""
    browser = next(filter(None, map(shutil.which, ("chromium", "google-chrome"))), None)
    assert browser is not None, "pictures need chromium or chrome on the path"
    shown = replace(status, path="/var/lib/fedsub/run")
    console = Console(record=True, width=170, height=24, file=StringIO(), force_terminal=True)
    console.print(screen(console, shown))
    console.save_svg(str(place / "terminal.svg"), title="fedsub status --watch")

    def shoot(url: str, name: str, size: str) -> None:
        command = [browser, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars",
                   f"--user-data-dir={place / 'profile'}", f"--screenshot={folder / name}",
                   f"--window-size={size}", "--timeout=4000", url]  # fmt: skip
        subprocess.run(command, check=True, capture_output=True, timeout=60)

    shoot((place / "terminal.svg").as_uri(), "status-terminal.png", "1180,400")
    with served(lambda: shown, names=True) as url:
        shoot(url, "status-page.png", "1180,930")


def test_who_died_is_slow_or_sends_rubbish_is_named_and_the_run_goes_on(
    town: Callable[..., Federation], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With FEDSUB_PICTURES=FOLDER it also draws what an operator sees in the third round."""
    write_federation(tmp_path / "data", town(5))
    keys: dict[str, str | int | float | bool] = {
        "method": "fedavg",
        "beside": "",
        "rounds": 3,
        "round-timeout": PATIENCE,
        "quorum": 0.2,
        "data": str(tmp_path / "data"),
        "out": str(tmp_path / "out"),
    }
    monkeypatch.setenv("PYTHONPATH", tampered_path(tmp_path / "shim"))
    monkeypatch.setenv("FEDSUB_TEST_CHEAT", RUBBISH)
    monkeypatch.setenv("FEDSUB_TEST_KEPT", str(tmp_path / "kept"))
    rehearsal = Rehearsal(read_config(None, keys), 5, print, print)
    looks: list[Status] = []
    ca = rehearsal.place.credentials.ca
    monkeypatch.setenv(LOG_FORMAT, "json")
    before = os.umask(0)
    try:
        with rehearsal.up(), ExitStack() as undone:
            stopped: list[int] = []
            for finished in rehearsal.follow(rehearsal.submit()):
                if (rehearsal.place.run / "run.toml").is_file():
                    looks.append(read_status(rehearsal.place.folder))
                if finished >= 1 and not stopped:
                    link = read_superlink(f"{HOST}:{rehearsal.port}", ca.read_bytes())
                    assert (link.state, link.troubles) == ("going on", [])
                    assert [(n.name, state_of(n)) for n in link.nodes] == [
                        (f"p{i}", "connected") for i in range(1, 6)
                    ]
                    assert link.runs[0].status == "running" and link.runs[0].bytes_up > 0
                    # Stopped, not killed: what dies is started again here.
                    stopped = [
                        child.process.pid
                        for child in rehearsal.supervisor.children
                        if child.name.startswith(tuple(f"supernode-{one}" for one in DEAD))
                    ]
                    for process in stopped:
                        os.kill(process, signal.SIGSTOP)
                    undone.enter_context(slowed(rehearsal.place.state / SLOW))
            for process in stopped:
                os.kill(process, signal.SIGKILL)  # it would not hear that it is to end
    finally:
        os.umask(before)
    waited = [
        look for look in looks if look.state == "going on" and set(look.waited_for) == {*DEAD}
    ]
    people = {person.client: person for person in waited[0].people}
    for client in DEAD:
        assert people[client].state in ("waited for", "away") and people["p1"].since
    assert len({person.node for person in waited[0].people}) == 5 and waited[0].certificate_days
    if folder := os.environ.get("FEDSUB_PICTURES"):
        draw(waited[-1], Path(folder), tmp_path)
    last = read_status(rehearsal.place.folder)
    assert (last.kind, last.state, last.finished) == ("deployment", "finished", 3)
    assert last.verdict in (Verdict.WELL, Verdict.TROUBLE)
    people = {person.client: person for person in last.people}
    for client in DEAD:
        assert people[client].usable == 1 and people[client].failed >= 1
    assert people[RUBBISH].usable == 1 and people[RUBBISH].refused == 2
    assert "client id: got 'p1', expected 'p3'" in (people[RUBBISH].why or "")
    assert (people[SLOW].usable, people["p1"].usable) == (3, 3)
    assert any(SLOW in look.waited_for and "p1" not in look.waited_for for look in looks)
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
