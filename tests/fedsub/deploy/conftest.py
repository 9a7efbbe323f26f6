"""Processes that tests start, deployments whose rounds they see, and whether all of it is gone."""

import fcntl
import os
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from fedsub.deploy import processes
from fedsub.engines.rehearsal import Rehearsal
from fedsub.engines.simulation import train_method
from fedsub_client.saved_state import Saved
from fedsub_client.store import STATE_FILE
from fedsub_core.config.run_config import RunConfig, read_config
from fedsub_core.data.federation import Federation, write_federation
from fedsub_server.rundb import RunDatabase

from ...flower_patience import PATH
from ...rounds_on_disk import rounds_on_disk
from .equal_runs import metrics_of
from .fleet_api import fleet

__all__ = ["fleet"]

CLIENTS = 3
PATIENCE = 240.0
FUSING: dict[str, str | int | float | bool] = {
    "beside": "",
    "rounds": 5,
    "lr": 0.05,
    "batch-size": 8,
    # Both sides remember what they sent: the worst that can get lost.
    "upload-encoding": "delta,zstd",
    "download-encoding": "delta",
    "fedsub.relevance": "naive",
    "fedsub.k-selection": "fixed:1",
    "fedsub.fusion": "avg",
    # A node that was killed is refused for a minute, and is to be waited for: as long as the quorum
    # lacks it.
    "round-timeout": 300,
    "quorum": 1.0,
    # In one process: as many stacks as clients, which compute what one device does, to the bit.
    "threads": CLIENTS,
}
_RECOVERIES = pytest.StashKey[list[str]]()

Script = Generator[None, None, None]


def _content(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError:  # the process has ended
        return b""


def _opened(process: Path) -> set[str]:
    opened = set()
    try:
        for link in (process / "fd").iterdir():
            opened.add(os.readlink(link))
    except OSError:
        pass
    return opened


def _parent(pid: int) -> int:
    """The number of a process's parent, or 0."""
    _, _, said = _content(Path("/proc", str(pid), "stat")).rpartition(b")")
    return int(said.split()[1]) if said else 0


@pytest.fixture
def mark(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[], list[str]]]:
    """Mark the environment of whatever a test starts; return what of it still runs."""
    if not Path("/proc/self/environ").exists():
        pytest.skip("needs Linux's /proc to see which processes are left")
    text = f"FEDSUB_TEST_MARK={uuid4().hex}"
    monkeypatch.setenv(*text.split("="))

    def running() -> list[str]:
        # What has ended and waits to be reaped has no environment any more.
        processes = Path("/proc").glob("[0-9]*")
        own = [p for p in processes if text.encode() in _content(p / "environ")]
        return [_content(p / "cmdline").decode().replace("\0", " ") for p in own]

    def left() -> list[str]:
        # A process killed a moment ago may take another to disappear.
        for _ in range(20):
            if not running():
                return []
            time.sleep(0.1)
        return running()

    left.now = running  # type: ignore[attr-defined]
    yield left


@pytest.fixture(scope="module")
def quick_heartbeats() -> Iterator[None]:
    """Have Flower's processes that are started now notice within 30 s who has died.

    Who died is started again after a second: on a busy machine a SuperLink takes long enough.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(processes, "RESTART_PAUSE", 1.0)
        for folder in PATH:
            patch.setenv("PYTHONPATH", folder, prepend=os.pathsep)
        yield


class Deployment:
    """A rehearsal in this process, whose rounds a script follows and disturbs."""

    def __init__(self, config: RunConfig) -> None:
        self.rehearsal = Rehearsal(config, CLIENTS, print, print)
        self.finished = 0
        #: By fault: the round it hit, seconds to that round's end, metrics before it.
        self.recoveries: dict[str, tuple[int, float, dict[Any, float]]] = {}

    def play(self, script: Script) -> None:
        """Have a run submitted and followed; the script goes on at every look."""
        for finished in self.rehearsal.follow(self.rehearsal.submit()):
            self.finished = finished
            next(script, None)

    def until(self, condition: Callable[[], bool]) -> Script:
        """Wait for `condition`."""
        deadline = time.monotonic() + PATIENCE
        while not condition():
            assert time.monotonic() < deadline, f"not so after {PATIENCE:g} s"
            yield

    def until_round(self, round: int) -> Script:
        """Wait until `round` has finished."""
        return self.until(lambda: self.finished >= round)

    def until_over(self, fault: str) -> Script:
        """Wait for the end of the round that a fault hit a moment ago."""
        since, round, before = time.monotonic(), self.finished + 1, self.metrics()
        yield from self.until_round(round)
        self.recoveries[fault] = round, time.monotonic() - since, before

    @contextmanager
    def kept_at_work(self, client: str) -> Iterator[None]:
        """Keep the client from training, by the lock on its state."""
        with (self.state(client) / "lock").open("w") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield

    def at_work(self, client: str) -> list[int]:
        """The client's ClientApp that has opened that lock, if there is one."""
        lock = str(self.state(client) / "lock")
        apps = self.clientapps(client)
        return [pid for pid in apps if lock in _opened(Path("/proc", str(pid)))]

    def clientapps(self, client: str) -> list[int]:
        """The client's ClientApps: forks of a warm process, or programs as Flower starts them."""
        apps = self.apps(f"supernode-{client}-superexec", "clientapp")
        return [pid for pid in apps if pid not in self.warm(client)]

    def warm(self, client: str) -> list[int]:
        """The process that forks the client's ClientApps, if there is one: a SuperExec's own."""
        name = f"supernode-{client}-superexec"
        return [p for p in self.apps(name, "warm_clientapp") if _parent(p) == self.pid(name)]

    def apps(self, name: str, program: str) -> list[int]:
        """The processes of apps that the SuperExec `name` started."""
        home = f"FLWR_HOME={self.rehearsal.place.home(name)}\0".encode()
        return [
            int(process.name)
            for process in Path("/proc").glob("[0-9]*")
            if home in _content(process / "environ")
            and program.encode() in _content(process / "cmdline")
        ]

    def pid(self, name: str) -> int:
        """A component's process."""
        (child,) = (c for c in self.rehearsal.supervisor.children if c.name == name)
        return child.process.pid

    def state(self, client: str) -> Path:
        return self.rehearsal.place.state / client

    def saved(self, client: str) -> Saved:
        return Saved.of_bytes((self.state(client) / STATE_FILE).read_bytes())

    def log(self, name: str) -> str:
        return self.rehearsal.place.log(name).read_text(errors="replace")

    def rounds(self) -> list[int]:
        """The rounds in the run's database."""
        return rounds_on_disk(self.rehearsal.database)

    def server(self) -> dict[str, Any]:
        """The server's state after the last round."""
        with RunDatabase(self.rehearsal.database) as database:
            state: dict[str, Any] = database.load()[1]["server"]
        return state

    def metrics(self) -> dict[Any, float]:
        return metrics_of(self.rehearsal.database)


@pytest.fixture(scope="module")
def deployment(
    town: Callable[..., Federation], tmp_path_factory: pytest.TempPathFactory
) -> Deployment:
    """A deployment of three clients whose models are fused, not yet up."""
    folder = tmp_path_factory.mktemp("deployment")
    write_federation(folder / "data", town(CLIENTS))
    places = {"data": str(folder / "data"), "out": str(folder / "out")}
    return Deployment(read_config(None, FUSING | places))


@pytest.fixture(scope="session")
def undisturbed(
    town: Callable[..., Federation], tmp_path_factory: pytest.TempPathFactory
) -> tuple[dict[str, dict[str, Any]], dict[Any, float], Path]:
    """The same run in one process: its state, its metrics, its personal models."""
    folder = tmp_path_factory.mktemp("undisturbed")
    train_method(read_config(None, FUSING), "fedsub", town(CLIENTS), folder, lambda round: None)
    with RunDatabase(folder / "state.db") as database:
        _, state = database.load()
    return state, metrics_of(folder / "state.db"), folder / "models"


@pytest.fixture(scope="module")
def recoveries(deployment: Deployment, pytestconfig: pytest.Config) -> Iterator[None]:
    """Print at the end how long each fault took."""
    yield
    lines = pytestconfig.stash.setdefault(_RECOVERIES, [])
    for fault, (round, seconds, _) in deployment.recoveries.items():
        lines.append(f"{fault:16} round {round}  {seconds:6.1f} s")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if lines := terminalreporter.config.stash.get(_RECOVERIES, []):
        terminalreporter.section("from a fault to the end of the round that it hit")
        terminalreporter.write("\n".join([*lines, ""]))
