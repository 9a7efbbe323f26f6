"""``fedsub-superexec``: Flower's SuperExec, with ClientApps that have imported PyTorch already.

Flower starts a program for each message that a device gets, and importing PyTorch, Flower and our
code takes it longer than most rounds of training. Here the first message starts a process that has
imported them (`warm_clientapp.py`), and each message is answered by a fork of that process: a
process of its own, as before. FEDSUB_WARM_SECONDS after the last message came it ends, and its
memory is free; 0 starts a program for each message, as Flower does.

Forks need Linux. Elsewhere, where that process cannot be started or takes too long to, and where a
run brings packages of its own, apps start as Flower's do. All of them end with the SuperExec.
"""

import json
import socket
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from logging import WARNING
from typing import Any

from fedsub.deploy.parent import tied_programs
from fedsub.deploy.seconds import WARM_SECONDS, read_seconds
from fedsub_core.errors import FedSubError
from fedsub_core.flower.modules import demand_deployable
from fedsub_core.flower.superexec import (
    TASK_TYPE_TO_APPIO_API_ADDRESS_ARG,
    ExecutionSpec,
    ExecutorType,
    LaunchResult,
    SubprocessExecutor,
    TaskType,
    executors,
    log,
    programs,
    send_heartbeat,
    superexec_program,
)
from fedsub_core.logs import set_up_logs
from fedsub_core.version import installed_version

_DEFAULT_SECONDS = 600.0
#: Flower gives an app 30 s for its first heartbeat, and 60 s from one to the next. While the warm
#: process imports, which takes slow boards minutes, this process sends them for the app.
HEARTBEAT_SECONDS = 15.0
#: Who waits for longer than this for a warm process that still imports starts as Flower's do.
READY_SECONDS = 300.0
#: A warm process that has not forked for so long hangs.
ANSWER_SECONDS = 60.0
#: A task: since when it waits, and its specification.
_Task = tuple[float, ExecutionSpec]


def arguments_of(spec: ExecutionSpec) -> list[str]:
    """Return the arguments of ``flwr-clientapp`` for a task."""
    arguments = [TASK_TYPE_TO_APPIO_API_ADDRESS_ARG[spec.task_type], spec.runtime_api_address]
    arguments += ["--token", spec.token]
    if spec.insecure:
        arguments += ["--insecure"]
    elif spec.root_certificates_path is not None:
        arguments += ["--root-certificates", spec.root_certificates_path]
    if spec.parent_pid is not None:
        arguments += ["--parent-pid", str(spec.parent_pid)]
    return arguments


class WarmExecutor(SubprocessExecutor):
    """Starts ClientApps as forks of a warm process, all else as Flower does.

    Parameters
    ----------
    seconds
        How long the warm process is kept after its last task.
    clock
        Seconds that only go on.
    """

    def __init__(self, seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._seconds, self._clock = seconds, clock
        self._warm: _WarmProcess | None = None
        #: Closed ones, which end once their forks have.
        self._closed: list[subprocess.Popen[bytes]] = []
        self._last = clock()
        self._useless = False

    @property
    def pid(self) -> int | None:
        """The warm process, while there is one."""
        return None if self._warm is None else self._warm.process.pid

    def launch(self, spec: ExecutionSpec) -> LaunchResult:
        """Start a task's process, or have it started once the warm one is there."""
        # Packages that a run brings are to be found before those that have been imported.
        asked = spec.suppress_output or spec.runtime_dependency_install
        if spec.task_type is not TaskType.CLIENT_APP or asked or self._useless:
            return super().launch(spec)
        if self._warm is not None and self._warm.version != installed_version():
            self._launch_as_flower(self._warm.unsent)
            self.close()
        if self._warm is None:
            try:
                self._warm = _WarmProcess(self._clock)
            except OSError as error:
                log(WARNING, "No process that forks ClientApps can be started: %s", error)
                return super().launch(spec)
        self._last = self._clock()
        self._warm.take(spec)
        return LaunchResult.accepted()

    def reconcile(self) -> None:
        """Start tasks that the warm process cannot; end the process when it has none."""
        self._closed = [process for process in self._closed if process.poll() is None]
        warm = self._warm
        if warm is None:
            return
        if not warm.hear():
            status = warm.process.wait()
            log(WARNING, "The process that forks ClientApps has ended with %d", status)
            # One that ends before it has begun cannot be had here; else there may be another.
            self._useless = status > 0 and not warm.ready
            self._launch_as_flower(warm.sent)
            self._launch_as_flower(warm.unsent)
            self.close()
        elif warm.waits(warm.unsent) > READY_SECONDS:
            self._launch_as_flower(warm.unsent)
        elif warm.unsent and self._clock() >= warm.next_heartbeat:
            warm.next_heartbeat = self._clock() + HEARTBEAT_SECONDS
            for _, spec in warm.unsent:
                _send_heartbeat(spec)
        elif warm.waits(warm.sent) > ANSWER_SECONDS:
            warm.process.kill()
        elif warm.idle and self._clock() - self._last > self._seconds:
            self.close()

    def close(self) -> None:
        """Let the warm process end once its forks have."""
        if self._warm is not None:
            self._warm.channel.close()
            self._closed.append(self._warm.process)
        self._warm = None

    def _launch_as_flower(self, tasks: deque[_Task]) -> None:
        while tasks:
            _, spec = tasks.popleft()
            _send_heartbeat(spec)
            super().launch(spec)


def _send_heartbeat(spec: ExecutionSpec) -> None:
    """Send a task's heartbeat from a thread: a SuperNode that hangs must not hold up the others."""

    def send() -> None:
        try:
            send_heartbeat(spec)
        except Exception as error:
            log(WARNING, "The heartbeat of a task that is to start was not sent: %s", error)

    threading.Thread(target=send, daemon=True).start()


class _WarmProcess:
    """A process of `warm_clientapp.py`, and the tasks that it has not started yet."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self.version = installed_version()
        self.ready, self.next_heartbeat = False, clock()
        self.unsent: deque[_Task] = deque()
        self.sent: deque[_Task] = deque()
        self.channel, its = socket.socketpair()
        # -P: no module of the folder that this was started in comes before the installed ones.
        command = [sys.executable, "-P", "-m", "fedsub.deploy.warm_clientapp", str(its.fileno())]
        with its:
            self.process = subprocess.Popen(command, pass_fds=[its.fileno()])

    @property
    def idle(self) -> bool:
        """Whether all its tasks are started."""
        return not (self.unsent or self.sent)

    def take(self, spec: ExecutionSpec) -> None:
        """Queue a task; the process forks for it as soon as it is ready."""
        self.unsent.append((self._clock(), spec))
        if self.ready:
            self._send()

    def waits(self, tasks: deque[_Task]) -> float:
        """Return the seconds that the first of some tasks has waited; 0 without any."""
        return self._clock() - tasks[0][0] if tasks else 0.0

    def hear(self) -> bool:
        """Read which tasks were started; return whether the process is still there."""
        try:
            answers = self.channel.recv(4096, socket.MSG_DONTWAIT)
        except BlockingIOError:
            return True
        except OSError:
            return False
        for _ in answers:
            if self.ready:
                self.sent.popleft()
            else:
                self.ready = True
                self._send()
        return bool(answers)

    def _send(self) -> None:
        while self.unsent:
            _, spec = self.unsent.popleft()
            # From now on: it may have waited for long.
            self.sent.append((self._clock(), spec))
            line = json.dumps(arguments_of(spec)).encode() + b"\n"
            # If it has ended, hear() tells.
            with suppress(OSError):
                self.channel.sendall(line)


def main() -> None:
    """Run Flower's SuperExec, with its own options."""
    try:
        seconds = read_seconds(WARM_SECONDS, _DEFAULT_SECONDS)
        set_up_logs()
        demand_deployable()
    except FedSubError as error:
        sys.exit(f"fedsub-superexec: {error}")
    flower = executors()
    flowers = flower.get_executor

    def get_executor(kind: ExecutorType, **keys: Any) -> Any:
        if kind is ExecutorType.SUBPROCESS and seconds > 0 and sys.platform in ("linux", "android"):
            return WarmExecutor(seconds)
        return flowers(kind, **keys)

    flower.get_executor = get_executor
    programs("subprocess").subprocess = tied_programs()
    superexec_program().flower_superexec()
