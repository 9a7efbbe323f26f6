"""Studies that a test interrupts with SIGINT."""

import os
import signal
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager


@contextmanager
def started(command: Sequence[str]) -> Iterator[subprocess.Popen[str]]:
    """Start a command in a session of its own; end all its processes if a test leaves them."""
    with subprocess.Popen(
        command,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
        preexec_fn=_listen,
    ) as study:
        try:
            yield study
        finally:
            if study.poll() is None:
                os.killpg(study.pid, signal.SIGKILL)


def _listen() -> None:
    """Take SIGINT again, which who is started in the background of a shell has to ignore."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
