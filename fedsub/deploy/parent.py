"""Child processes that end when their parent does, even if it is killed.

Flower's apps look whether their SuperExec lives, and interrupt themselves from a thread, which does
not wake the main one where it waits: it goes on until what it waits for has come.
"""

import ctypes
import os
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

#: Seconds in which a process that was asked to end has to.
GRACE_SECONDS = 10.0
_LOOK_SECONDS = 0.5
_PR_SET_PDEATHSIG, _PR_SET_DUMPABLE = 1, 4


def hide_memory() -> None:
    """Let no other process of this user read this one's memory, or files through it. Linux."""
    if sys.platform in ("linux", "android"):
        ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)


def with_parent() -> Callable[[], None]:
    """Return a function for a child to run before its program: it then ends with its parent.

    It follows the thread that starts the child: call it in the main one. Linux; elsewhere nothing.
    """
    parent = os.getpid()
    if sys.platform not in ("linux", "android"):
        return lambda: None
    # Loaded here: between fork and the program only system calls are safe.
    prctl = ctypes.CDLL(None, use_errno=True).prctl

    def follow() -> None:
        prctl(_PR_SET_PDEATHSIG, int(signal.SIGTERM), 0, 0, 0)
        if os.getppid() != parent:  # it ended before it was followed
            os._exit(1)

    return follow


def end_with(pid: int) -> None:
    """Watch another process: once it has ended, end this one, by a kill if it lingers."""
    threading.Thread(target=_watch, args=(pid,), daemon=True).start()


def _watch(pid: int) -> None:
    _await_end(pid)
    # To the process, not to this thread: the main one wakes, wherever it waits.
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(GRACE_SECONDS)
    os.kill(os.getpid(), signal.SIGKILL)


def _await_end(pid: int) -> None:
    try:
        file = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    except OSError:  # an old kernel, or one that forbids it
        _look_for_end(pid)
        return
    try:
        poll = select.poll()
        poll.register(file, select.POLLIN)
        poll.poll()
    finally:
        os.close(file)


def _look_for_end(pid: int) -> None:
    while True:
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return
        except PermissionError:
            pass
        time.sleep(_LOOK_SECONDS)


def tied_programs() -> SimpleNamespace:
    """Return a stand-in for :mod:`subprocess` whose children end with this process.

    Flower starts apps by it. A ClientApp is started as the one whose waits have bounds
    (`bounded_clientapp.py`). To be called in the main thread.
    """
    follow, ours = with_parent(), SimpleNamespace(**vars(subprocess))

    def popen(arguments: Sequence[str], **keys: Any) -> subprocess.Popen[bytes]:
        command = list(arguments)
        if command[0] == "flwr-clientapp":
            command[:1] = [sys.executable, "-P", "-m", "fedsub.deploy.bounded_clientapp"]
        return subprocess.Popen(command, preexec_fn=follow, **keys)

    ours.Popen = popen
    return ours
