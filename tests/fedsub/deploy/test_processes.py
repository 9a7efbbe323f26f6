"""The supervisor on real processes: nothing survives it, however it ends."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from fedsub.deploy import processes
from fedsub.deploy.processes import Child, Supervisor
from fedsub.testing.refusals import refused
from fedsub_core.errors import RunError

Left = Callable[[], list[str]]
STUBBORN = (
    "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); "
    "print('up', flush=True); time.sleep(300)"
)
# Ends at SIGTERM; what it started ignores it.
PARENT = (
    "import subprocess, sys, time; "
    f"subprocess.Popen([sys.executable, '-c', {STUBBORN!r}]); time.sleep(300)"
)


def python(code: str) -> list[str]:
    return [sys.executable, "-c", code]


def start(supervisor: Supervisor, folder: Path, name: str, code: str, **options: object) -> Child:
    log = folder / f"{name}.log"
    return supervisor.start(name, python(code), os.environ, log, **options)  # type: ignore[arg-type]


def up(*children: Child) -> Callable[[], bool]:
    return lambda: all("up" in child.output() for child in children)


def test_children_end_with_the_block(tmp_path: Path, mark: Left) -> None:
    with Supervisor() as supervisor:
        command = ["sleep", "300"]
        children = [
            supervisor.start(f"{n}", command, os.environ, tmp_path / f"{n}.log") for n in range(3)
        ]
        assert len({os.getsid(child.process.pid) for child in children} | {os.getsid(0)}) == 4
    assert not mark()
    assert {child.process.returncode for child in children} == {-signal.SIGTERM}


def test_one_that_ignores_sigterm_is_killed_after_the_grace(tmp_path: Path, mark: Left) -> None:
    with Supervisor(grace=0.5) as supervisor:
        child = start(supervisor, tmp_path, "stubborn", STUBBORN)
        supervisor.wait_until(up(child), "up", 60)
        since = time.monotonic()
    assert 0.5 <= time.monotonic() - since < 10
    assert child.process.returncode == -signal.SIGKILL
    assert not mark()


def test_grandchildren_end_too(tmp_path: Path, mark: Left) -> None:
    with Supervisor() as supervisor:
        child = start(supervisor, tmp_path, "parent", PARENT)
        supervisor.wait_until(up(child), "up", 60)
        assert len(mark.now()) == 3  # type: ignore[attr-defined]  # and the guardian
    assert child.process.returncode == -signal.SIGTERM
    assert not mark()


def test_grandchildren_of_one_that_died_end_too(tmp_path: Path, mark: Left) -> None:
    with Supervisor() as supervisor:
        child = start(supervisor, tmp_path, "parent", PARENT)
        supervisor.wait_until(up(child), "up", 60)
        os.kill(child.process.pid, signal.SIGKILL)
        with pytest.raises(RunError, match="parent ended by SIGKILL"):
            supervisor.wait_until(lambda: False, "never", 60)
        supervisor.children.clear()
        time.sleep(0.2)
        assert len(mark.now()) == 1  # type: ignore[attr-defined]
    assert not mark()


def test_a_failure_in_the_block_ends_children(tmp_path: Path, mark: Left) -> None:
    with pytest.raises(ZeroDivisionError), Supervisor() as supervisor:
        start(supervisor, tmp_path, "child", "import time; time.sleep(300)")
        _ = 1 / 0
    assert not mark()


def test_higher_ranks_end_first_and_together(tmp_path: Path) -> None:
    code = (
        "import pathlib, signal, sys, time\n"
        "def end(*_):\n"
        "    time.sleep(1)\n"
        "    with open({path!r}, 'a') as file: file.write('{name} ')\n"
        "    sys.exit()\n"
        "signal.signal(signal.SIGTERM, end)\n"
        "print('up', flush=True)\n"
        "time.sleep(300)\n"
    )
    with Supervisor() as supervisor:
        children = [
            start(
                supervisor,
                tmp_path,
                f"{name}{n}",
                code.format(path=str(tmp_path / "order"), name=name),
                rank=rank,
            )
            for n, (name, rank) in enumerate([("link", 0), ("node", 1), ("node", 1), ("node", 1)])
        ]
        supervisor.wait_until(up(*children), "up", 60)
        since = time.monotonic()
    took = time.monotonic() - since
    assert (tmp_path / "order").read_text().split() == ["node", "node", "node", "link"]
    assert 2.0 <= took < 3.9, "children of a rank were ended one after another"


def test_a_death_is_told_with_the_end_of_the_log(tmp_path: Path) -> None:
    with Supervisor() as supervisor:
        start(supervisor, tmp_path, "node", "print('x' * 9000); raise SystemExit('bad key')")
        with refused(RunError, "node", "exit code 1", "node.log", "bad key") as e:
            supervisor.wait_until(lambda: False, "never", 60)
    assert len(str(e.value)) < 2500


def test_waiting_is_bounded(tmp_path: Path) -> None:
    with Supervisor() as supervisor:
        task = start(supervisor, tmp_path, "task", "import time; time.sleep(300)", task=True)
        with pytest.raises(RunError, match="task: still not so after 0 s"):
            supervisor.finish([task], 0.3)
        with pytest.raises(RunError, match="healthy: still not so"):
            supervisor.wait_until(lambda: False, "healthy", 0.2)


def test_tasks_may_end_but_not_fail(tmp_path: Path) -> None:
    with Supervisor() as supervisor:
        good = [start(supervisor, tmp_path, f"g{n}", f"print({n})", task=True) for n in range(2)]
        supervisor.finish(good, 60)
        assert [task.output() for task in good] == ["0\n", "1\n"]
        bad = start(supervisor, tmp_path, "bad", "raise SystemExit('no link')", task=True)
        with pytest.raises(RunError, match=r"(?s)bad ended with exit code 1.*no link"):
            supervisor.finish([bad], 60)
        assert not supervisor.children


def test_what_dies_is_started_again_once_all_are_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mark: Left
) -> None:
    monkeypatch.setattr(processes, "RESTART_PAUSE", 0.3)
    monkeypatch.setattr(processes, "MOST_RESTARTS", 2)
    with Supervisor() as supervisor:
        child = start(supervisor, tmp_path, "node", "print('up', flush=True)", restart=True)
        with pytest.raises(RunError, match="node ended with exit code 0"):
            supervisor.wait_until(lambda: False, "never", 60)
    with Supervisor() as supervisor:
        supervisor.restarting = True
        since = time.monotonic()
        child = start(supervisor, tmp_path, "again", "print('up', flush=True)", restart=True)
        with pytest.raises(RunError, match="again ended with exit code 0"):
            supervisor.wait_until(lambda: False, "never", 60)
        assert time.monotonic() - since > 0.6
    assert child.output().count("up") == 3  # the start, and twice again
    assert not mark()


def test_who_was_well_for_a_while_may_be_started_as_often_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(processes, "RESTART_PAUSE", 0.0)
    monkeypatch.setattr(processes, "MOST_RESTARTS", 1)
    monkeypatch.setattr(processes, "WELL_SECONDS", 0.5)
    lives = "import time; print('up', flush=True); time.sleep(1)"
    with Supervisor() as supervisor:
        supervisor.restarting = True
        child = start(supervisor, tmp_path, "node", lives, restart=True)
        supervisor.wait_until(lambda: child.output().count("up") == 4, "a fourth start", 60)
        assert child.restarts == 1


def test_a_missing_command_is_refused(tmp_path: Path) -> None:
    with Supervisor() as supervisor:
        with pytest.raises(RunError, match="no-such-command: cannot be started"):
            supervisor.start("x", ["no-such-command"], os.environ, tmp_path / "x.log")
        assert not supervisor.children


SCRIPT = """
import os, sys, time
from pathlib import Path
from fedsub.deploy.processes import Supervisor
from fedsub.deploy.signals import EndSignals, Interrupted
try:
    with EndSignals() as signals, Supervisor({grace}, signals) as supervisor:
        log = Path({log!r})
        child = supervisor.start("c", [sys.executable, "-c", {code!r}], os.environ, log)
        supervisor.wait_until(lambda: "up" in child.output(), "up", 60)
        print("ready", flush=True)
        supervisor.wait_until(lambda: False, "never", 60)
except Interrupted as interrupted:
    print(interrupted, flush=True)
    sys.exit(128 + interrupted.number)
"""


def supervising(folder: Path, code: str, grace: float = 10) -> subprocess.Popen[str]:
    """Another process that supervises a child; returns when both are up."""
    # Under nohup tests ignore it, and what they start would, too, as it should.
    heard = "import signal\nsignal.signal(signal.SIGHUP, signal.SIG_DFL)\n"
    script = heard + SCRIPT.format(grace=grace, log=str(folder / "c.log"), code=code)
    process = subprocess.Popen(python(script), stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None and process.stdout.readline() == "ready\n"
    return process


def test_nothing_survives_a_supervisor_killed_with_sigkill(tmp_path: Path, mark: Left) -> None:
    with supervising(tmp_path, PARENT) as process:
        assert len(mark.now()) == 4  # type: ignore[attr-defined]
        process.kill()
    assert not mark()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_signals_that_end_a_program_end_children(
    tmp_path: Path, mark: Left, number: signal.Signals
) -> None:
    with supervising(tmp_path, PARENT) as process:
        process.send_signal(number)
        said, _ = process.communicate(timeout=60)
    assert said == f"ended by {number.name}\n"
    assert process.returncode == 128 + number
    assert not mark()


def test_asked_twice_it_does_not_wait(tmp_path: Path, mark: Left) -> None:
    with supervising(tmp_path, STUBBORN, grace=300) as process:
        for _ in range(2):
            process.send_signal(signal.SIGINT)
            time.sleep(0.5)
        process.communicate(timeout=30)
    assert process.returncode == 130
    assert not mark()
