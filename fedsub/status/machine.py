"""What this machine says of a run: which process has its database open, memory, disk, dates."""

import os
import re
import shutil
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

_PROCESSES = Path("/proc")


def holder(files: list[Path]) -> int | None:
    """Return a process that has one of `files` open; None where there is none, or none is seen.

    Linux says it of processes of the same user, and of all to root.
    """
    wanted = {str(file.resolve()) for file in files}
    for process in _PROCESSES.glob("[0-9]*"):
        if process.name == str(os.getpid()):
            continue
        with suppress(OSError):
            for link in (process / "fd").iterdir():
                with suppress(OSError):
                    if os.readlink(link) in wanted:
                        return int(process.name)
    return None


def sees_processes() -> bool:
    """Whether the system says which process has which file open."""
    return (_PROCESSES / "self" / "fd").is_dir()


def memory_of(process: int) -> int | None:
    """Return the memory that a process holds now, bytes; None where that is not told."""
    with suppress(OSError):
        text = (_PROCESSES / str(process) / "status").read_text()
        found = re.search(r"^VmRSS:\s+(\d+) kB$", text, re.MULTILINE)
        return int(found[1]) * 1024 if found else None
    return None


def free_bytes(folder: Path) -> int | None:
    """Return how much room there is where `folder` lies."""
    with suppress(OSError):
        return shutil.disk_usage(folder).free
    return None


def certificate_days(path: Path) -> float | None:
    """Return the days until a certificate ends; None where there is none that can be read."""
    from cryptography import x509

    with suppress(OSError, ValueError):
        certificate = x509.load_pem_x509_certificate(path.read_bytes())
        return (certificate.not_valid_after_utc - datetime.now(UTC)).total_seconds() / 86_400
    return None
