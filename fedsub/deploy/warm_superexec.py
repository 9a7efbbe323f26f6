"""``fedsub-superexec``: Flower's SuperExec, with ClientApps that have imported PyTorch already.

Flower starts a program for each message that a device gets, and importing PyTorch, Flower and our
code takes it longer than most rounds of training. Here the first message starts a process that has
imported them (`warm_clientapp.py`), and each message is answered by a fork of that process: a
process of its own, as before. After FEDSUB_WARM_SECONDS without a message it ends, and its memory
is free; 0 starts a program for each message, as Flower does.

Forks need Linux. Elsewhere, and where that process cannot be started, apps start as Flower's do.
"""

from __future__ import annotations

import json
import math
import os
import socket
import subprocess
import sys
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from logging import WARNING
from typing import Any

from flwr.supercore import log
from flwr.supercore.cli.flower_superexec import flower_superexec
from flwr.supercore.constant import (
    TASK_TYPE_TO_APPIO_API_ADDRESS_ARG,
    ExecutorType,
    TaskType,
)
from flwr.supercore.superexec.executor import (
    ExecutionSpec,
    LaunchResult,
    SubprocessExecutor,
)

from fedsub.deploy.flower_process import flower_module
from fedsub_core.errors import ConfigError
from fedsub_core.version import installed_version

WARM_SECONDS = "FEDSUB_WARM_SECONDS"
_DEFAULT_SECONDS = 600.0


def read_seconds(said: str | None) -> float:
    """Return how long a warm process is kept after its last message.

    Raises
    ------
    ConfigError
        If FEDSUB_WARM_SECONDS says something that is no such time.
    """
    with suppress(ValueError):
        seconds = _DEFAULT_SECONDS if said is None else float(said)
        if 0 <= seconds < math.inf:
            return seconds
    raise ConfigError(f"{WARM_SECONDS}: got {said!r}, expected seconds, 0 or more")


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
    if spec.runtime_dependency_install:
        arguments += ["--allow-runtime-dependency-installation"]
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
        self._last = clock()
        self._useless = False

    @property
    def pid(self) -> int | None:
        """The warm process, while there is one."""
        return None if self._warm is None else self._warm.process.pid

    def launch(self, spec: ExecutionSpec) -> LaunchResult:
        """Start a task's process."""
        if spec.task_type is not TaskType.CLIENT_APP or spec.suppress_output or self._useless:
            return super().launch(spec)
        if self._warm is not None and self._warm.version != installed_version():
            self.close()
        self._warm = self._warm or _WarmProcess()
        self._last = self._clock()
        self._warm.ask(spec)
        return LaunchResult.accepted()

    def reconcile(self) -> None:
        """Start what a warm process that has died did not; end one that has nothing to do."""
        warm = self._warm
        if warm is None:
            return
        if warm.hear():
            if not warm.waiting and self._clock() - self._last > self._seconds:
                self.close()
            return
        status = warm.process.wait()
        log(WARNING, "The process that forks ClientApps has ended with %d", status)
        # One that ends by itself cannot be had here; another may live where one was killed.
        self._useless = status > 0
        self.close()
        for spec in warm.waiting:
            super().launch(spec)

    def close(self) -> None:
        """Let the warm process end once its forks have."""
        if self._warm is not None:
            self._warm.channel.close()
        self._warm = None


class _WarmProcess:
    """A process of `warm_clientapp.py`: what it was asked for, and what it has not answered yet."""

    def __init__(self) -> None:
        self.version = installed_version()
        self.waiting: deque[ExecutionSpec] = deque()
        self.channel, its = socket.socketpair()
        # -P: no module of the folder that this was started in comes before the installed ones.
        command = [sys.executable, "-P", "-m", "fedsub.deploy.warm_clientapp", str(its.fileno())]
        with its:
            self.process = subprocess.Popen(command, pass_fds=[its.fileno()])

    def ask(self, spec: ExecutionSpec) -> None:
        """Ask for a fork that does a task."""
        self.waiting.append(spec)
        # If it has ended, hear() tells.
        with suppress(OSError):
            self.channel.sendall(json.dumps(arguments_of(spec)).encode() + b"\n")

    def hear(self) -> bool:
        """Take note of the forks that it has started; return whether it is still there."""
        try:
            answers = self.channel.recv(4096, socket.MSG_DONTWAIT)
        except BlockingIOError:
            return True
        except OSError:
            return False
        for _ in answers:
            self.waiting.popleft()
        return bool(answers)


def main() -> None:
    """Run Flower's SuperExec, with its own options."""
    try:
        seconds = read_seconds(os.environ.get(WARM_SECONDS))
    except ConfigError as error:
        sys.exit(f"fedsub-superexec: {error}")
    flower = flower_module("flwr.supercore.superexec.run_superexec", "get_executor")
    flowers = flower.get_executor

    def get_executor(kind: ExecutorType, **keys: Any) -> Any:
        if kind is ExecutorType.SUBPROCESS and seconds > 0 and sys.platform in ("linux", "android"):
            return WarmExecutor(seconds)
        return flowers(kind, **keys)

    flower.get_executor = get_executor
    flower_superexec()
