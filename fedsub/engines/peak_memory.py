"""The most memory that this process held, where the system tells and can be asked to forget it."""

import re
from contextlib import suppress
from pathlib import Path

_PROCESS = Path("/proc/self")  # Linux; elsewhere nothing is told


def forget_peak() -> None:
    """Let the peak begin anew at what the process holds now."""
    with suppress(OSError):
        (_PROCESS / "clear_refs").write_text("5")


def peak_bytes() -> int | None:
    """Return the greatest resident memory since :func:`forget_peak`, bytes; None if not told."""
    with suppress(OSError):
        found = re.search(r"^VmHWM:\s+(\d+) kB$", (_PROCESS / "status").read_text(), re.MULTILINE)
        return int(found[1]) * 1024 if found else None
    return None
