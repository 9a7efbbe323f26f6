"""A process that has imported what a ClientApp needs, and forks one for each message.

`warm_superexec.py` starts it as ``python -m fedsub.deploy.warm_clientapp FD``. FD is a socket: each
line is a JSON list, the arguments of a ``flwr-clientapp``, and is answered with a byte once a fork
becomes that; a byte before all says that it is ready. It ends when the other end is closed and its
forks have ended. It has one Python thread and no connection: no fork waits for a lock that a thread
holds which it does not have.
"""

import gc
import json
import logging
import os
import signal
import socket
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from importlib import import_module

import numpy as np

from fedsub.deploy.bounded_clientapp import bound_waits
from fedsub.deploy.parent import end_with
from fedsub_core.flower.clientapp import clientapp_program
from fedsub_core.logs import set_up_logs
from fedsub_core.pytorch import HERE, torch

#: The app that a fork loads. It and Flower's program, which the fork becomes, import all else.
APP = "fedsub_client.app"
#: The argument that names the SuperExec's process: a fork ends with it.
PARENT = "--parent-pid"


def next_task(channel: socket.socket) -> list[str] | None:
    """Return a task's arguments, once for each task and in a fork of its own; None in the end."""
    # Who closes its end with an answer in it, or before the first, breaks the connection.
    with suppress(ConnectionError), channel.makefile("rb") as lines:
        channel.sendall(b".")
        for line in lines:
            # Answered after the fork: one that cannot be had is started by who asked.
            if os.fork() == 0:
                # Nobody here draws from it, but a method of others may: not what all forks draw.
                np.random.seed()
                return list(json.loads(line))
            # If nobody is there to hear it, there will be no further line.
            with suppress(OSError):
                channel.sendall(b".")
    return None


def status_of(program: Callable[[], None]) -> int:
    """Run a program and return its exit status, having said why if it is not 0."""
    try:
        program()
    except SystemExit as end:
        if isinstance(end.code, str):
            print(end.code, file=sys.stderr)
            return 1
        return end.code or 0
    except BaseException:
        sys.excepthook(*sys.exc_info())
        return 1
    return 0


def main() -> None:
    """Import, and be each task's ClientApp."""
    # Ctrl+C reaches all processes of a terminal; who asked for this one ends it.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    clientapp = clientapp_program()
    bound_waits()
    import_module(APP)
    set_up_logs()  # the SuperExec has refused what this would
    # It imports methods of others, too.
    on_gpu = HERE and torch.cuda.is_initialized()  # type: ignore[no-untyped-call]
    if threading.active_count() > 1 or on_gpu:
        sys.exit("an import has started a thread or CUDA, which forks cannot have: no warm process")
    # Forks that have ended are nobody's business: tasks end by what they tell the SuperNode.
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    sys.stdout.flush()
    # What the forks share is not to be written to by their search for garbage.
    gc.collect()
    gc.freeze()
    with socket.socket(fileno=int(sys.argv[1])) as channel:
        task = next_task(channel)
    if task is None:
        with suppress(ChildProcessError):
            os.wait()
        return
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    # Its parent is the warm process, which may be killed and it goes on.
    if PARENT in task:
        end_with(int(task[task.index(PARENT) + 1]))
    sys.argv = ["flwr-clientapp", *task]
    status = status_of(clientapp.flwr_clientapp)
    logging.shutdown()
    with suppress(OSError, ValueError):
        sys.stdout.flush()
    # An interpreter that takes itself apart writes to every page that it shares.
    os._exit(status)


if __name__ == "__main__":
    main()
