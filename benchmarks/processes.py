"""What Linux says of processes: memory, CPU time, descendants, what a whole command used."""

import os
import subprocess
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

_TICKS = os.sysconf("SC_CLK_TCK")


def memory(field: str, process: int | str = "self", file: str = "status") -> int:
    """Return a field of a process's memory in bytes, such as ``VmData``; 0 where there is none."""
    with suppress(OSError):
        for line in Path("/proc", str(process), file).read_text().splitlines():
            if line.startswith(f"{field}:"):
                return int(line.split()[1]) * 1024
    return 0


def cpu_seconds(process: int) -> float:
    """Return a process's CPU seconds, user and system; 0 of one that has ended."""
    with suppress(OSError):
        said = Path("/proc", str(process), "stat").read_text().rpartition(")")[2].split()
        return (int(said[11]) + int(said[12])) / _TICKS
    return 0.0


def descendants(process: int) -> list[tuple[int, int]]:
    """Return a process and all that it started, with how many forks lie between."""
    found, todo = [], [(process, 0)]
    while todo:
        one, depth = todo.pop()
        found.append((one, depth))
        for path in Path(f"/proc/{one}/task").glob("*/children"):
            with suppress(OSError):
                todo += [(int(child), depth + 1) for child in path.read_text().split()]
    return found


class Used(NamedTuple):
    """Seconds by the clock and of all CPUs, and MB at the peak, of a process."""

    seconds: float
    cpu: float
    peak: float

    def __str__(self) -> str:
        return f"{self.seconds:.1f} / {self.cpu:.1f} / {self.peak:.0f}"


def used_by(command: Sequence[str], folder: Path) -> Used:
    """Run a command in `folder`, or end with what it said."""
    start = time.perf_counter()
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(command, cwd=folder, stdout=log, stderr=log)
        _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"{' '.join(command)}\n{(folder / 'log').read_text()}")
    took = time.perf_counter() - start
    return Used(took, used.ru_utime + used.ru_stime, used.ru_maxrss * 1024 / 1e6)
