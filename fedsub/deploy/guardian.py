"""Ends process groups whose starter died without doing so itself, were it by SIGKILL.

Run as a process of its own by :class:`fedsub.deploy.processes.Supervisor`. Standard input is a pipe
that only the starter holds: lines ``+<group>`` and ``-<group>`` tell what runs, and the end of the
file that the starter is gone. Imports nothing but the standard library, to start at once.
"""

import os
import signal
import sys
from collections.abc import Iterable
from contextlib import suppress


def guard(lines: Iterable[str]) -> None:
    """Follow which groups run until the lines end; SIGKILL those that still do."""
    groups: set[int] = set()
    for line in lines:
        group = int(line[1:])
        if line.startswith("+"):
            groups.add(group)
        else:
            groups.discard(group)
    for group in groups:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(group, signal.SIGKILL)


if __name__ == "__main__":
    guard(iter(sys.stdin.readline, ""))
