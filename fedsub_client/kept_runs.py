"""Kept states: those of a device's other runs, beside the state of the newest one.

A state is of one run and one of its methods. Its file's name begins with :data:`KEPT`, or with
:data:`FINISHED` once the run's last round was trained, and goes on with a digest of the run's name.
"""

from __future__ import annotations

import hashlib
import logging
from pathlib import Path

from fedsub_client.saved_state import Saved

log = logging.getLogger("fedsub")

KEPT, FINISHED = "kept-", "finished-"
#: States of other runs that a device keeps at most, and their bytes together.
MOST_KEPT, MOST_BYTES = 16, 2**30


def kept_name(saved: Saved) -> str:
    """Return the name of a state's file while another run's is the newest."""
    return kept_names(saved.run, saved.method)[saved.finished]


def kept_names(run: str, method: str) -> tuple[str, str]:
    """Return the names that :func:`kept_name` may have given: not finished, and finished."""
    name = f"{run_digest(run)}-{method}.safetensors"
    return KEPT + name, FINISHED + name


def run_digest(run: str) -> str:
    """Return the digest of a run's name that stands in the names of its files."""
    return hashlib.blake2b(run.encode(), digest_size=8).hexdigest()


def make_room(folder: Path, client: str) -> None:
    """Remove states of other runs beyond the bounds: the oldest finished ones first.

    One stays, however large it is.

    Raises
    ------
    OSError
        Where one cannot be removed.
    """

    def when(path: Path) -> tuple[bool, int]:
        return path.name.startswith(KEPT), path.stat().st_mtime_ns

    sizes = {path: path.stat().st_size for path in sorted(kept_in(folder), key=when)}
    while len(sizes) > MOST_KEPT or (len(sizes) > 1 and sum(sizes.values()) > MOST_BYTES):
        gone = next(iter(sizes))
        gone.unlink()
        del sizes[gone]
        log.warning("client %s: too many states of other runs; removed %s", client, gone.name)


def kept_in(folder: Path) -> list[Path]:
    """Return the files of other runs' states in a device's folder, ascending by name."""
    return sorted(p for kind in (KEPT, FINISHED) for p in folder.glob(f"{kind}*.safetensors"))
