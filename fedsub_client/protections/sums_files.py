"""The files of a participant's secrets in secure sums: one for each run.

Earlier releases kept that of all runs in one file. It is read where a run has none of its own: if
it names the run, or is damaged and may have named it.
"""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path

from fedsub_core.errors import RunError
from fedsub_core.files import replace_file
from fedsub_core.sealing import Locked, seal, unseal


def load_sums(own: Path, before: Path, run: str) -> bytes | None:
    """Return the secrets that are kept of a run's sums; None without any.

    Parameters
    ----------
    own, before : the run's file, and the one of earlier releases.

    Raises RunError where there is a file that cannot be read.
    """
    if (kept := _bytes(own)) is not None or (older := _bytes(before)) is None:
        return kept
    return older if json.dumps(run).encode() in older or not _is_json(older) else None


def save_sums(own: Path, before: Path, kept: bytes) -> None:
    """Replace the file of a run's secrets, whole or not at all.

    Raises OSError where it cannot be written, as on a full disk.
    """
    replace_file(own, seal(kept, own.parent.name))
    # Whoever asked first has noted that a damaged one may have named its run; no other run need.
    if not _is_json(_bytes(before) or b"{}"):
        before.unlink()


def _bytes(path: Path) -> bytes | None:
    try:
        data = path.read_bytes()
        return unseal(data, path.parent.name)
    except Locked:
        raise
    except FileNotFoundError:
        return None
    except OSError as error:
        raise RunError(f"{path}: cannot be read ({error})") from error
    except RunError:  # whoever reads it notices the damage
        return data


def _is_json(data: bytes) -> bool:
    with suppress(ValueError):
        json.loads(data)
        return True
    return False
