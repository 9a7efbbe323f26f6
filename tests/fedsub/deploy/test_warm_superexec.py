"""ClientApps are forks of a warm process, and start as Flower's do where there can be none."""

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from flwr.supercore.constant import TASK_TOKEN_HEADER, ExecutorType, TaskType
from flwr.supercore.superexec import run_superexec
from flwr.supercore.superexec.executor import ExecutionSpec, LaunchResult, SubprocessExecutor

from fedsub.deploy import warm_superexec
from fedsub.deploy.flower_process import flower_environment
from fedsub.deploy.seconds import WARM_SECONDS
from fedsub.deploy.warm_clientapp import status_of
from fedsub.deploy.warm_superexec import (
    ANSWER_SECONDS,
    HEARTBEAT_SECONDS,
    READY_SECONDS,
    WarmExecutor,
    arguments_of,
)
from fedsub_core.flower.superexec import programs, superexec_program

PATIENCE = 120.0


class SuperNode(ThreadingHTTPServer):
    """What ClientApps ask for their tasks: it notes who comes or lives, and sends all away."""

    daemon_threads = True

    def __init__(self) -> None:
        self.seen: set[str] = set()
        self.heartbeats: list[str] = []
        self.open = threading.Event()
        super().__init__(("127.0.0.1", 0), _Handler)

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.server_address[1]}"


class _Handler(BaseHTTPRequestHandler):
    server: SuperNode

    def do_POST(self) -> None:
        token = self.headers[TASK_TOKEN_HEADER]
        if self.path.endswith("/send-task-heartbeat"):
            self.server.heartbeats.append(token)
        else:
            self.server.seen.add(token)
        self.server.open.wait(PATIENCE)
        self.send_error(400)

    def log_message(self, format: str, *args: Any) -> None:
        pass


@pytest.fixture
def supernode() -> Iterator[SuperNode]:
    with SuperNode() as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.open.set()
        server.shutdown()


@pytest.fixture
def spec(supernode: SuperNode) -> ExecutionSpec:
    return ExecutionSpec(
        task_type=TaskType.CLIENT_APP,
        runtime_api_address=supernode.address,
        token="first-token",
        insecure=True,
        root_certificates_path=None,
        runtime_dependency_install=False,
        parent_pid=os.getpid(),
        suppress_output=False,
        task_id=1,
        fab_hash=None,
    )


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def executor(
    clock: Clock, supernode: SuperNode, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[WarmExecutor]:
    for name, value in flower_environment(tmp_path).items():
        monkeypatch.setenv(name, value)
    made = WarmExecutor(600.0, clock)
    yield made
    made.close()
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if f"FLWR_HOME={tmp_path}\0".encode() in (process / "environ").read_bytes():
                os.kill(int(process.name), signal.SIGKILL)


@pytest.fixture
def flowers(monkeypatch: pytest.MonkeyPatch) -> list[ExecutionSpec]:
    """Tasks that are started as Flower starts them, which are not started here."""
    launched: list[ExecutionSpec] = []

    def launch(self: SubprocessExecutor, spec: ExecutionSpec) -> LaunchResult:
        launched.append(spec)
        return LaunchResult.accepted()

    monkeypatch.setattr(SubprocessExecutor, "launch", launch)
    return launched


def until(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline, f"not so after {PATIENCE:g} s"
        time.sleep(0.05)


def children(pid: int | None) -> set[int]:
    return {int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()}


def at_rest(executor: WarmExecutor) -> bool:
    executor.reconcile()
    return executor.pid is None


def gone(pid: int) -> bool:
    """Whether a process has ended; it may not have been waited for."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] == "Z"
    except (OSError, IndexError):
        return True


def ready(executor: WarmExecutor) -> int:
    """Wait until all that was launched is started; return the warm process."""

    def started() -> bool:
        executor.reconcile()
        assert executor._warm is not None
        return executor._warm.ready and executor._warm.idle

    until(started)
    assert executor.pid is not None
    return executor.pid


@pytest.mark.slow
def test_each_task_is_a_fork_of_one_warm_process(
    executor: WarmExecutor, spec: ExecutionSpec, supernode: SuperNode
) -> None:
    for token in ("first-token", "second-token"):
        executor.launch(replace(spec, token=token))
    warm = ready(executor)
    executor.launch(replace(spec, token="third-token"))
    until(lambda: {"first-token", "second-token", "third-token"} <= supernode.seen)
    assert executor.pid == warm and len(children(warm)) == 3
    # Nobody holds a lock that a fork could wait for.
    assert "Threads:\t1\n" in Path(f"/proc/{warm}/status").read_text()


@pytest.mark.slow
@pytest.mark.parametrize("heard", [True, False])
def test_a_closed_warm_process_outlives_its_forks_and_no_longer(
    executor: WarmExecutor,
    spec: ExecutionSpec,
    supernode: SuperNode,
    capfd: pytest.CaptureFixture[str],
    heard: bool,
) -> None:
    executor.launch(spec)
    warm = ready(executor)
    executor.launch(replace(spec, token="second-token"))
    until(lambda: "second-token" in supernode.seen)
    if heard:
        ready(executor)
    forks = children(warm)
    capfd.readouterr()
    executor.close()
    # It takes a second to end if it does not wait for them.
    time.sleep(3)
    assert len(forks) == 2 and not gone(warm)
    supernode.open.set()
    until(lambda: all(gone(pid) for pid in (*forks, warm)))
    # What Flower says of a task that was sent away is no error of ours.
    assert "warm_clientapp" not in capfd.readouterr().err
    (process,) = executor._closed
    assert process.wait() == 0
    executor.reconcile()
    assert not executor._closed


@pytest.mark.slow
def test_a_warm_process_with_nothing_to_do_ends_and_the_next_task_gets_another(
    executor: WarmExecutor, spec: ExecutionSpec, supernode: SuperNode, clock: Clock
) -> None:
    supernode.open.set()
    executor.launch(spec)
    first = ready(executor)
    clock.now = 599.0
    executor.reconcile()
    assert executor.pid == first
    clock.now = 601.0
    executor.reconcile()
    assert executor.pid is None
    until(lambda: gone(first))
    executor.launch(spec)
    assert executor.pid not in (None, first)


@pytest.mark.slow
def test_tasks_of_a_killed_warm_process_start_as_flowers_do_and_the_next_gets_another(
    executor: WarmExecutor, spec: ExecutionSpec, supernode: SuperNode, flowers: list[ExecutionSpec]
) -> None:
    supernode.open.set()
    executor.launch(spec)
    first = ready(executor)
    os.kill(first, signal.SIGKILL)
    until(lambda: gone(first))
    second = replace(spec, token="second-token")
    executor.launch(second)
    until(lambda: at_rest(executor))
    assert flowers == [second]
    executor.launch(spec)
    assert executor.pid not in (None, first)


@pytest.mark.slow
def test_a_task_that_waits_for_a_warm_process_has_heartbeats(
    executor: WarmExecutor, spec: ExecutionSpec, supernode: SuperNode, clock: Clock
) -> None:
    supernode.open.set()
    executor.launch(spec)
    slow = executor.pid
    assert slow is not None
    os.kill(slow, signal.SIGSTOP)
    for beats in (1, 2, 3):
        executor.reconcile()
        executor.reconcile()  # one is enough for a while
        until(lambda: len(supernode.heartbeats) == beats)  # noqa: B023
        clock.now += HEARTBEAT_SECONDS
    assert set(supernode.heartbeats) == {spec.token}
    # It is not taken for one that hangs, however long the task had waited.
    clock.now = READY_SECONDS - 1
    os.kill(slow, signal.SIGCONT)
    assert ready(executor) == slow


@pytest.mark.slow
def test_a_task_waits_for_a_warm_process_only_so_long(
    executor: WarmExecutor, spec: ExecutionSpec, flowers: list[ExecutionSpec], clock: Clock
) -> None:
    executor.launch(spec)
    slow = executor.pid
    assert slow is not None
    os.kill(slow, signal.SIGSTOP)
    clock.now = READY_SECONDS - 1
    executor.reconcile()
    assert flowers == []
    clock.now = READY_SECONDS + 1
    executor.reconcile()
    assert flowers == [spec]
    # It is there for the next.
    os.kill(slow, signal.SIGCONT)
    assert ready(executor) == slow and flowers == [spec]


@pytest.mark.slow
def test_a_warm_process_that_hangs_is_killed(
    executor: WarmExecutor,
    spec: ExecutionSpec,
    supernode: SuperNode,
    flowers: list[ExecutionSpec],
    clock: Clock,
) -> None:
    supernode.open.set()
    executor.launch(spec)
    os.kill(ready(executor), signal.SIGSTOP)
    second = replace(spec, token="second-token")
    executor.launch(second)
    clock.now = ANSWER_SECONDS - 1
    executor.reconcile()
    assert flowers == [] and executor.pid is not None
    clock.now = ANSWER_SECONDS + 1
    until(lambda: at_rest(executor))
    assert flowers == [second]


@pytest.mark.slow
def test_a_new_version_gets_a_warm_process_of_its_own(
    executor: WarmExecutor,
    spec: ExecutionSpec,
    flowers: list[ExecutionSpec],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    executor.launch(spec)
    old = executor.pid
    assert old is not None
    monkeypatch.setattr(warm_superexec, "installed_version", lambda: "99.0")
    executor.launch(replace(spec, token="second-token"))
    assert executor.pid not in (None, old)
    # The old one, which may find its files exchanged, had not started it yet.
    assert flowers == [spec]
    until(lambda: gone(old))


def test_where_none_can_be_had_all_tasks_start_as_flowers_do(
    executor: WarmExecutor, spec: ExecutionSpec, flowers: list[ExecutionSpec], tmp_path: Path
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "executable", str(tmp_path / "nothing"))
        executor.launch(spec)
        assert flowers == [spec] and executor.pid is None
        patch.setattr(sys, "executable", "/bin/false")
        executor.launch(spec)
        until(lambda: at_rest(executor))
        assert flowers == [spec] * 2
    executor.launch(spec)
    assert executor.pid is None and flowers == [spec] * 3


def test_tasks_of_other_kinds_start_as_flowers_do(
    executor: WarmExecutor, spec: ExecutionSpec, flowers: list[ExecutionSpec]
) -> None:
    server = replace(spec, task_type=TaskType.SERVER_APP)
    others = [server, replace(spec, suppress_output=True)]
    others += [replace(spec, runtime_dependency_install=True)]
    for other in others:
        executor.launch(other)
    assert executor.pid is None
    assert flowers == others


@pytest.mark.parametrize("insecure", [True, False])
@pytest.mark.parametrize("certificates", [None, "ca.crt"])
@pytest.mark.parametrize("parent", [None, 7])
def test_arguments_are_those_that_flower_gives(
    spec: ExecutionSpec,
    monkeypatch: pytest.MonkeyPatch,
    insecure: bool,
    certificates: str | None,
    parent: int | None,
) -> None:
    given = replace(
        spec,
        insecure=insecure,
        root_certificates_path=certificates,
        parent_pid=parent,
    )
    started: list[list[str]] = []
    monkeypatch.setattr(subprocess, "Popen", started.append)
    SubprocessExecutor().launch(given)
    assert started == [["flwr-clientapp", *arguments_of(given)]]


@pytest.mark.parametrize(
    ("kind", "seconds", "made"),
    [
        (ExecutorType.SUBPROCESS, "600", WarmExecutor),
        (ExecutorType.SUBPROCESS, "0", SubprocessExecutor),
        (ExecutorType.KUBERNETES, "600", str),
    ],
)
def test_flower_gets_a_warm_executor_in_place_of_its_own_for_programs(
    monkeypatch: pytest.MonkeyPatch, kind: ExecutorType, seconds: str, made: type
) -> None:
    flowers = {ExecutorType.SUBPROCESS: SubprocessExecutor(), ExecutorType.KUBERNETES: "kubernetes"}
    got: list[object] = []
    module: Any = run_superexec
    monkeypatch.setattr(module, "get_executor", lambda kind, **keys: flowers[kind])
    monkeypatch.setattr(
        superexec_program(), "flower_superexec", lambda: got.append(module.get_executor(kind))
    )
    monkeypatch.setenv(WARM_SECONDS, seconds)
    monkeypatch.setattr(programs(), "subprocess", subprocess)
    warm_superexec.main()
    assert [type(executor) for executor in got] == [made]


@pytest.mark.slow
def test_there_is_none_where_an_import_has_started_a_thread(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(
        "import threading\nthreading.Thread(target=threading.Event().wait, daemon=True).start()\n"
    )
    ours, its = socket.socketpair()
    with ours, its:
        ended = subprocess.run(
            [sys.executable, "-m", "fedsub.deploy.warm_clientapp", str(its.fileno())],
            pass_fds=[its.fileno()],
            env={**flower_environment(tmp_path / "home"), "PYTHONPATH": str(tmp_path)},
            stderr=subprocess.PIPE,
            text=True,
            timeout=PATIENCE,
        )
    assert ended.returncode == 1
    assert "an import has started a thread or CUDA" in ended.stderr


def test_forks_draw_differently() -> None:
    """From the streams of Python and NumPy that belong to nobody."""
    script = (
        "import os, random, socket, sys, numpy\n"
        "from fedsub.deploy.warm_clientapp import next_task\n"
        "with socket.socket(fileno=int(sys.argv[1])) as channel: task = next_task(channel)\n"
        # In one write: two processes share the pipe.
        "said = f'{random.random()} {numpy.random.random()}\\n'\n"
        "if task: os.write(1, f'{task[0]} {said}'.encode())\n"
    )
    ours, its = socket.socketpair()
    with ours:
        with its:
            command = [sys.executable, "-c", script, str(its.fileno())]
            started = subprocess.Popen(
                command, pass_fds=[its.fileno()], stdout=subprocess.PIPE, text=True
            )
        ours.sendall(b'["a"]\n["b"]\n')
        assert [ours.recv(1) for _ in "-ab"] == [b"."] * 3
    said, _ = started.communicate(timeout=PATIENCE)
    (a, *drawn), (b, *others) = sorted(line.split() for line in said.splitlines())
    assert (a, b) == ("a", "b")
    assert len({*drawn, *others}) == 4


def ends(code: object) -> Callable[[], None]:
    def program() -> None:
        raise code if isinstance(code, BaseException) else SystemExit(code)

    return program


@pytest.mark.parametrize(
    ("program", "status", "said"),
    [
        (lambda: None, 0, ""),
        (ends(None), 0, ""),
        (ends(3), 3, ""),
        (ends("no token"), 1, "no token"),
        (ends(ValueError("bad")), 1, "ValueError: bad"),
    ],
)
def test_a_fork_ends_as_its_program_would(
    capsys: pytest.CaptureFixture[str], program: Callable[[], None], status: int, said: str
) -> None:
    assert status_of(program) == status
    assert said in capsys.readouterr().err
