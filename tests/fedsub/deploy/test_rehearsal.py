"""A whole deployment on loopback, as a person starts it: its result, its TLS, and its end."""

import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from fedsub_core.config.run_config import read_config
from fedsub_server.rundb import RunDatabase

from .private_files import assert_private
from .raw_device.connection import answers_plainly, speaks_tls

Left = Callable[[], list[str]]
DEPLOY = "from fedsub.commands.deploy import deploy; deploy(prog_name='fedsub deploy')"


class Rehearsal:
    """`fedsub deploy local` in a process of its own, and what it says."""

    def __init__(self, out: Path, data: Path, clients: int, *settings: str) -> None:
        self.out = out
        command = [sys.executable, "-c", DEPLOY, "local", "--clients", str(clients)]
        command += ["--data", str(data), "--out", str(out)]
        command += [part for setting in settings for part in ("--set", setting)]
        self.process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        self.said = ""

    def read_until(self, words: str) -> None:
        """Read what it says until a line holds `words`; fail if it ends before."""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.said += line
            if words in line:
                return
        pytest.fail(f"ended before it said {words!r}:\n{self.said}")

    def end(self, timeout: float) -> int:
        """Return the exit code."""
        rest, _ = self.process.communicate(timeout=timeout)
        self.said += rest
        return self.process.returncode

    @property
    def folder(self) -> Path:
        """Where everything lies."""
        (folder,) = self.out.iterdir()
        return folder

    @property
    def ports(self) -> list[int]:
        """Of the SuperLink: for SuperNodes, for runs."""
        (line,) = re.findall(r"SuperLink: .*", self.said)
        return [int(port) for port in re.findall(r":(\d+)", line)]


@pytest.fixture
def rehearse(town_folder: Path, tmp_path: Path, mark: Left) -> Iterator[Callable[..., Rehearsal]]:
    started: list[Rehearsal] = []

    def start(clients: int, *settings: str) -> Rehearsal:
        started.append(Rehearsal(tmp_path / "out", town_folder, clients, *settings))
        return started[-1]

    yield start
    for rehearsal in started:
        rehearsal.process.kill()  # what it left is its guardian's to end


def assert_ports_are_free(ports: list[int]) -> None:
    for port in ports:
        # A process that was killed has no environment any more while the kernel, under load for
        # seconds, still closes its sockets.
        until = time.monotonic() + 30
        while answers(port):
            assert time.monotonic() < until, f"port {port} is still open"
            time.sleep(0.1)


def answers(port: int) -> bool:
    """Whether somebody listens there."""
    try:
        socket.create_connection(("127.0.0.1", port), timeout=5).close()
    except ConnectionRefusedError:
        return False
    except OSError:  # reset: it is just being closed
        pass
    return True


@pytest.mark.slow
def test_a_deployment_runs_over_tls_and_leaves_nothing(
    rehearse: Callable[..., Rehearsal], mark: Left
) -> None:
    rehearsal = rehearse(3, "rounds=2", "split=stratified")
    rehearsal.read_until("SuperNodes connected: p1, p2, p3")
    fleet, control = rehearsal.ports
    address, ca = f"127.0.0.1:{fleet}", rehearsal.folder / "certs" / "ca.crt"
    assert speaks_tls(address, ca) and not speaks_tls(address, None)
    assert not answers_plainly(address)

    assert rehearsal.end(timeout=400) == 0, rehearsal.said
    assert not mark()
    assert_ports_are_free([fleet, control])

    run = rehearsal.folder / "run"
    assert f"Run folder: {run}" in rehearsal.said and "macro F1" in rehearsal.said
    config = read_config(run / "run.toml")
    assert (config.method, config.methods, config.rounds) == ("fedsub", ("fedsub",), 2)
    with RunDatabase(run / "fedsub" / "state.db") as opened:
        assert opened.last_round() == 2
        rows = {(row.round, row.client) for row in opened.metrics("macro_f1")}
    assert rows == {(round, client) for round in (1, 2) for client in ("p1", "p2", "p3")}
    assert (run / "fedsub" / "metrics.csv").read_text().count(",macro_f1,") == 6
    assert '"macro_f1"' in (run / "summary.json").read_text()
    # Its ServerApp's process wrote it.
    page = run / "report.html"
    assert f"Report: {page}" in rehearsal.said and "Not finished" not in page.read_text("utf-8")
    for client in ("p1", "p2", "p3"):
        files = [p.name for p in (rehearsal.folder / "devices" / client / "clients").iterdir()]
        assert files == [f"{client}.npz"]
        assert any((rehearsal.folder / "state" / client).iterdir()), "nothing of it would last"
    assert (rehearsal.folder / "link.db").is_file()
    assert_private(rehearsal.folder)
    log = (rehearsal.folder / "logs" / "superlink.log").read_text()
    assert log.count("Deactivated node_id=") == 3, "SuperNodes did not say good-bye"


@pytest.mark.slow
@pytest.mark.parametrize(
    "number", [signal.SIGKILL, pytest.param(signal.SIGINT, marks=pytest.mark.release)]
)
def test_ended_in_the_middle_it_leaves_nothing(
    rehearse: Callable[..., Rehearsal], mark: Left, number: signal.Signals
) -> None:
    rehearsal = rehearse(1, "rounds=50")
    rehearsal.read_until("submitted")
    log = rehearsal.folder / "logs" / "supernode-p1-superexec.log"
    until = time.monotonic() + 120
    while "Start `flwr-clientapp` process" not in log.read_text():
        assert time.monotonic() < until and rehearsal.process.poll() is None
        time.sleep(0.1)
    running = " ".join(mark.now())  # type: ignore[attr-defined]
    assert all(name in running for name in ("fedsub-superlink", "flwr-serverapp", "warm_clientapp"))
    rehearsal.process.send_signal(number)
    code = rehearsal.end(timeout=60)
    assert code == (-number if number == signal.SIGKILL else 128 + number)
    assert not mark()
    assert_ports_are_free(rehearsal.ports)
    if number != signal.SIGKILL:
        assert "ended by SIGINT; all processes have been ended" in rehearsal.said


@pytest.mark.slow
def test_a_run_that_fails_says_why_and_leaves_nothing(
    rehearse: Callable[..., Rehearsal], mark: Left
) -> None:
    # No message is as small as one byte, so no device's upload can be used.
    rehearsal = rehearse(1, "rounds=2", "message-limit=1")
    code = rehearsal.end(timeout=400)
    assert code == 1 and "RunError: the run ended as finished:failed: round 1: " in rehearsal.said
    assert re.search(r"clients? sent a usable upload", rehearsal.said)
    assert f"All logs: {rehearsal.folder / 'logs'}" in rehearsal.said
    assert not mark()
