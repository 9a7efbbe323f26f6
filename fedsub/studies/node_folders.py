"""Temporary folders of runs on the nodes of a cluster: in use while a file in them is locked."""

from __future__ import annotations

import shutil
from contextlib import suppress
from pathlib import Path
from tempfile import gettempdir
from typing import IO

from fedsub_core.files import lock

#: How a run's folder is called, and the file in it that is locked.
PREFIX, LOCK = "fedsub-run-", "lock"


def locked(path: Path) -> IO[bytes]:
    """Make a file that says, while it is open, that its folder is in use."""
    draft = path.with_name(f"{path.name}.new")
    file = draft.open("xb")
    lock(file)
    draft.rename(path)  # so nobody ever finds it without its lock
    return file


def sweep() -> None:
    """Remove the folders of runs whose process was killed, as Ray does at a job's end."""
    for path in Path(gettempdir()).glob(f"{PREFIX}*/{LOCK}"):
        with suppress(OSError), path.open("rb") as file:
            if lock(file, wait=False):
                shutil.rmtree(path.parent, ignore_errors=True)
