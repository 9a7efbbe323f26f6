"""The files of a participant in secure sums: secrets of each run, and sums that it opened in any.

Earlier releases kept the secrets of all runs in one file. It is read where a run has none of its
own: if it names the run, or is damaged and may have named it. And they kept what was opened beside
the secrets.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from fedsub_core.errors import RunError
from fedsub_core.files import replace_file
from fedsub_core.secure.opened_sums import OpenedSum, OpenedSums

#: The sums that a device opened, of all its runs and methods.
OPENED_FILE = "opened-sums.json"


def load_sums(own: Path, before: Path, run: str) -> bytes | None:
    """Return the secrets that are kept of a run's sums; None without any.

    Parameters
    ----------
    own, before : the run's file, and the one of earlier releases.

    Raises
    ------
    RunError
        Where there is a file that cannot be read.
    """
    if (kept := _bytes(own)) is not None or (older := _bytes(before)) is None:
        return kept
    return older if json.dumps(run).encode() in older or not _is_json(older) else None


def save_sums(own: Path, before: Path, kept: bytes) -> None:
    """Replace the file of a run's secrets, whole or not at all.

    Raises
    ------
    OSError
        Where it cannot be written, as on a full disk.
    """
    replace_file(own, kept)
    # Whoever asked first has noted that a damaged one may have named its run; no other run need.
    if not _is_json(_bytes(before) or b"{}"):
        before.unlink()


def load_opened(folder: Path, today: str) -> OpenedSums:
    """Return the sums that a device opened; without a file those that earlier releases kept.

    Raises
    ------
    RunError
        Where there is a file that cannot be read.
    """
    path = folder / OPENED_FILE
    if (kept := _bytes(path)) is None:
        return OpenedSums(_opened_before(folder), today)
    try:
        return OpenedSums.read(kept, today)
    except ValueError:
        return OpenedSums(lost=f"{path} is damaged")


def save_opened(folder: Path, opened: OpenedSums) -> None:
    """Replace the file of the sums that a device opened; a damaged one stays as it is.

    Raises
    ------
    OSError
        Where it cannot be written, as on a full disk.
    """
    path, kept = folder / OPENED_FILE, opened.written()
    if not opened.lost and kept != _bytes(path) and opened.sums:
        replace_file(path, kept)


def _opened_before(folder: Path) -> Iterator[OpenedSum]:
    for path in sorted(folder.glob("sums*.json")):
        with suppress(AttributeError, TypeError, ValueError):
            kept: Mapping[str, Any] = json.loads(_bytes(path) or b"{}")
            for run, sums in kept.get("told", {}).items():
                for what, (vector, *sent) in sums.items():
                    yield OpenedSum(what, run, 0, vector, sent)


def _bytes(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise RunError(f"{path}: cannot be read ({error})") from error


def _is_json(data: bytes) -> bool:
    with suppress(ValueError):
        json.loads(data)
        return True
    return False
