"""Apps end with their SuperExec, wherever they wait, and wait for nothing for ever."""

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from fedsub.deploy import bounded_clientapp
from fedsub.deploy.bounded_clientapp import OBJECT_SECONDS, bound_waits, impatient
from fedsub.deploy.flower_process import flower_environment
from fedsub_core.flower.clientapp import (
    ObjectPullError,
    ObjectUnavailableError,
    clientapp_calls,
    objects,
)

from .test_warm_superexec import SuperNode, children, gone, until

PATIENCE = 300.0
#: Waits in the main thread, as Flower's pulls do: only a signal to the process wakes it.
WAITS = "threading.Event().wait()"


@contextmanager
def running(
    code: str, *arguments: str, env: dict[str, str] | None = None
) -> Iterator[subprocess.Popen[str]]:
    """Run some Python, which is killed in the end."""
    command = [sys.executable, "-c", code, *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=env) as made:
        try:
            yield made
        finally:
            made.kill()


def line_of(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


@pytest.mark.parametrize("deaf", [False, True])
def test_a_process_that_waits_ends_with_another_and_is_killed_if_it_will_not(deaf: bool) -> None:
    code = (
        "import signal, threading; from fedsub.deploy import parent\n"
        "parent.GRACE_SECONDS = 0.5\n"
        f"if {deaf}: signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        "parent.end_with({pid}); print('ready', flush=True)\n"
        f"{WAITS}"
    )
    other_code = f"import threading; {WAITS}"
    with running(other_code) as other, running(code.format(pid=other.pid)) as made:
        assert line_of(made) == "ready" and made.poll() is None
        other.kill()
        other.wait(PATIENCE)
        ended = signal.SIGKILL if deaf else signal.SIGTERM
        assert made.wait(PATIENCE) == -ended


def test_who_comes_after_the_other_has_ended_ends_too() -> None:
    with running("pass") as other:
        other.wait(PATIENCE)
    code = (
        f"import threading; from fedsub.deploy import parent; parent.end_with({other.pid}); {WAITS}"
    )
    with running(code) as made:
        assert made.wait(PATIENCE) == -signal.SIGTERM


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells children")
def test_a_program_that_flower_starts_ends_with_its_superexec() -> None:
    code = (
        "import sys, threading; from fedsub.deploy.parent import tied_programs\n"
        f"wait = 'import threading; {WAITS}'\n"
        "made = tied_programs().Popen([sys.executable, '-c', wait])\n"
        f"print(made.pid, flush=True); {WAITS}"
    )
    with running(code) as superexec:
        app = int(line_of(superexec))
        assert not gone(app)
        superexec.kill()
        superexec.wait(PATIENCE)
        until(lambda: gone(app))


def test_a_clientapp_that_flower_starts_is_ours(tmp_path: Path) -> None:
    code = (
        "from fedsub.deploy.parent import tied_programs\n"
        "made = tied_programs().Popen(['flwr-clientapp', '--help']); raise SystemExit(made.wait())"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=flower_environment(tmp_path),
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )
    assert done.returncode == 0 and "bounded_clientapp.py" in done.stdout


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="only Linux forks them")
def test_a_fork_ends_with_its_superexec(tmp_path: Path) -> None:
    """Its task never comes: the SuperNode does not answer."""
    code = (
        "import os, sys, time\n"
        "from flwr.supercore.constant import TaskType\n"
        "from flwr.supercore.superexec.executor import ExecutionSpec\n"
        "from fedsub.deploy import warm_superexec\n"
        "warm_superexec.READY_SECONDS = warm_superexec.ANSWER_SECONDS = 600.0\n"
        "made = warm_superexec.WarmExecutor(600.0)\n"
        "made.launch(ExecutionSpec(task_type=TaskType.CLIENT_APP, token='token', insecure=True,\n"
        "    runtime_api_address=sys.argv[1], root_certificates_path=None, task_id=1,\n"
        "    runtime_dependency_install=False, parent_pid=os.getpid(), suppress_output=False,\n"
        "    fab_hash=None))\n"
        "print(made.pid, flush=True)\n"
        "while True: made.reconcile(); time.sleep(0.05)"
    )
    with SuperNode() as supernode:
        threading.Thread(target=supernode.serve_forever, daemon=True).start()
        with running(code, supernode.address, env=flower_environment(tmp_path)) as superexec:
            warm = int(line_of(superexec))
            until(lambda: "token" in supernode.seen)
            (fork,) = children(warm)
            superexec.kill()
            try:
                until(lambda: gone(fork) and gone(warm))
            finally:
                for pid in (fork, warm):
                    with suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGKILL)
        supernode.open.set()
        supernode.shutdown()


def test_objects_are_waited_for_as_long_as_more_come() -> None:
    now = 0.0

    def pull(identity: str) -> bytes:
        if identity == "late":
            raise ObjectUnavailableError(identity)
        return b"content"

    pulled = impatient(pull, lambda: now)
    for _ in range(5):
        now += OBJECT_SECONDS
        with pytest.raises(ObjectUnavailableError):
            pulled("late")
        assert pulled("there") == b"content"
    now += OBJECT_SECONDS + 1.0
    with pytest.raises(ObjectPullError, match="no object of the message has come for 300 s"):
        pulled("late")


def test_flowers_pulls_and_calls_have_these_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    module, calls = objects(), clientapp_calls()
    monkeypatch.setattr(module, "pull_objects", module.pull_objects)
    name = "make_simple_http_retry_invoker"
    monkeypatch.setattr(calls, name, getattr(calls, name))
    monkeypatch.setattr(bounded_clientapp, "OBJECT_SECONDS", 0.0)
    bound_waits()

    def never(identity: str) -> bytes:
        raise ObjectUnavailableError(identity)

    with pytest.raises(ObjectPullError, match="no object of the message has come"):
        module.pull_objects(["a", "b"], never)
    assert calls.make_simple_http_retry_invoker().max_time == bounded_clientapp.CALL_SECONDS
