"""Child processes that are watched, started again, and ended together: nothing survives.

Each child leads a process group of its own, so that what it started ends with it, and a terminal's
Ctrl-C reaches only us.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from fedsub.deploy import guardian
from fedsub.deploy.signals import EndSignals
from fedsub_core.errors import RunError
from fedsub_core.files import UMASK, private

POLL_SECONDS = 0.1
#: Seconds before a process that ended is started again.
RESTART_PAUSE = 5.0
#: Flower refuses a SuperNode that was killed for up to 60 s: try for longer than that.
MOST_RESTARTS = 20
#: One that lived so long was well: what happened before no longer counts.
WELL_SECONDS = 120.0


@dataclass
class Child:
    """A child process, how it was started, and what is done when it ends.

    Parameters
    ----------
    rank : children of a higher rank are ended before those of a lower.
    task : it is meant to end by itself.
    restart : when it ends it is started again, once :attr:`Supervisor.restarting` is set.
    """

    name: str
    command: Sequence[str]
    env: Mapping[str, str]
    log: Path
    rank: int
    task: bool
    restart: bool
    process: subprocess.Popen[bytes]
    since: float = field(default_factory=time.monotonic)
    restarts: int = 0
    due: float | None = None
    buried: bool = False

    def output(self) -> str:
        """Return its log."""
        return self.log.read_text(encoding="utf-8", errors="replace")

    def tail(self) -> str:
        """Return the end of its log."""
        return self.output()[-2000:].strip()


class Supervisor:
    """Starts children and ends them all at the end of its ``with`` block, whatever happens there.

    Parameters
    ----------
    grace : seconds that children of a rank have to end after SIGTERM, before SIGKILL.
    signals : what it noticed raises ``Interrupted`` at the next wait, and ends the grace when
        somebody asks again. None: signals do what they do elsewhere.
    """

    def __init__(self, grace: float = 10.0, signals: EndSignals | None = None) -> None:
        self.grace = grace
        self.signals = signals or EndSignals()
        #: False: a child that ends is an error, which a wrong start should be. True: what may be
        #: started again is.
        self.restarting = False
        self.children: list[Child] = []

    def __enter__(self) -> Supervisor:
        self._guardian = subprocess.Popen(
            [sys.executable, "-I", guardian.__file__],
            stdin=subprocess.PIPE,
            start_new_session=True,
            text=True,
        )
        return self

    def __exit__(self, *_: object) -> None:
        try:
            self.stop()
        finally:
            # At the end of its input it ends what a failure in stop() left.
            self._guardian.communicate()

    def start(
        self,
        name: str,
        command: Sequence[str],
        env: Mapping[str, str],
        log: Path,
        *,
        rank: int = 0,
        task: bool = False,
        restart: bool = False,
    ) -> Child:
        """Start a child whose output is appended to the file `log`.

        Raises RunError if there is no such command, or the log cannot be written.
        """
        process = self._launch(command, env, log)
        child = Child(name, command, env, log, rank, task, restart, process)
        self.children.append(child)
        return child

    def wait_until(self, condition: Callable[[], bool], what: str, timeout: float) -> None:
        """Return once `condition` holds.

        Raises RunError if it does not within `timeout` s; says for what was waited, in the words
        `what`. As :meth:`check`. Raises Interrupted if a signal asked us to end.
        """
        deadline = time.monotonic() + timeout
        while not condition():
            self.check()
            if time.monotonic() > deadline:
                raise RunError(f"{what}: still not so after {timeout:.0f} s")
            time.sleep(POLL_SECONDS)

    def finish(self, tasks: Sequence[Child], timeout: float, well: bool = True) -> None:
        """Wait until all `tasks` have ended, `well` unless that does not matter.

        Raises RunError if one is not done within `timeout` s or fails, with the end of its log. As
        :meth:`check`. Raises Interrupted if a signal asked us to end.
        """
        names = ", ".join(task.name for task in tasks)
        self.wait_until(lambda: all(t.process.poll() is not None for t in tasks), names, timeout)
        for task in tasks:
            self.end([task])
            if well and task.process.returncode:
                raise self._failure(task)

    def check(self) -> None:
        """Look after the children: start again what should be.

        Raises RunError if one has ended that should not, with the end of its log. Raises
        Interrupted if a signal asked us to end.
        """
        self.signals.raise_received()
        for child in self.children:
            if child.task or child.process.poll() is None:
                continue
            if child.due is None:
                self._kill(child)
                if time.monotonic() - child.since > WELL_SECONDS:
                    child.restarts = 0
                if not (self.restarting and child.restart and child.restarts < MOST_RESTARTS):
                    raise self._failure(child)
                child.due = time.monotonic() + RESTART_PAUSE
            elif time.monotonic() > child.due:
                child.process = self._launch(child.command, child.env, child.log)
                child.restarts, child.due, child.buried = child.restarts + 1, None, False
                child.since = time.monotonic()

    def stop(self) -> None:
        """End all children with what they started, those of the highest rank first."""
        for rank in sorted({child.rank for child in self.children}, reverse=True):
            self.end([child for child in self.children if child.rank == rank])

    def end(self, children: Sequence[Child]) -> None:
        """End `children` together with what they started, and forget them."""
        for child in children:
            if child.process.poll() is None:
                _signal_group(child, signal.SIGTERM)
        deadline = time.monotonic() + self.grace
        while any(child.process.poll() is None for child in children):
            if time.monotonic() > deadline or self.signals.impatient:
                break
            time.sleep(POLL_SECONDS)
        for child in children:
            self._kill(child)
            self.children.remove(child)

    def _launch(
        self, command: Sequence[str], env: Mapping[str, str], log: Path
    ) -> subprocess.Popen[bytes]:
        try:
            with open(log, "ab", opener=private) as file:
                process = subprocess.Popen(
                    command,
                    env=env,
                    stdin=subprocess.DEVNULL,
                    stdout=file,
                    stderr=file,
                    start_new_session=True,
                    umask=UMASK,
                )
        except OSError as error:
            raise RunError(f"{command[0]}: cannot be started: {error}") from error
        self._tell_guardian(f"+{process.pid}")
        return process

    def _kill(self, child: Child) -> None:
        """Kill a child and whatever it has started, and reap it."""
        if child.buried:
            return  # its number may be another's by now
        child.buried = True
        _signal_group(child, signal.SIGKILL)
        child.process.wait()
        self._tell_guardian(f"-{child.process.pid}")

    def _tell_guardian(self, line: str) -> None:
        assert self._guardian.stdin is not None
        with suppress(BrokenPipeError):
            self._guardian.stdin.write(line + "\n")
            self._guardian.stdin.flush()

    @staticmethod
    def _failure(child: Child) -> RunError:
        code = child.process.returncode
        how = f"by {signal.Signals(-code).name}" if code < 0 else f"with exit code {code}"
        return RunError(f"{child.name} ended {how}. The end of {child.log}:\n{child.tail()}")


def _signal_group(child: Child, number: signal.Signals) -> None:
    # macOS refuses to signal a group of which only ended processes are left.
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(child.process.pid, number)
