"""Files of states in a client's folder: read whole or put aside, and kept for its other runs.

A state is of one run and one of its methods. While another run's is the newest, its file's name
begins with :data:`KEPT`, or with :data:`FINISHED` once the run's last round was trained, and goes
on with a digest of the run's name.
"""

from __future__ import annotations

import hashlib
import logging
import os
from collections.abc import Iterable
from pathlib import Path

from fedsub_client.saved_state import Saved
from fedsub_core.errors import OtherRelease, RunError
from fedsub_core.sealing import Locked, unseal

log = logging.getLogger("fedsub")
KEPT, FINISHED = "kept-", "finished-"
#: States of other runs that a device keeps at most, and their bytes together.
MOST_KEPT, MOST_BYTES = 16, 2**30


def load_state(path: Path, client: str) -> Saved | None:
    """Return the state in a file; None where there is none, or it is not a whole one of `client`.

    Then the file is kept aside under another name, and that is said.

    Raises OtherRelease where a release wrote it whose files this one does not read. It stays as it
    is. Raises Locked where it is sealed, and there is no passphrase or another one. It stays as it
    is. Raises RunError where there is a file that cannot be read or moved.
    """
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise RunError(f"{path}: cannot be read ({error})") from error
    try:
        saved = Saved.of_bytes(unseal(data, client))
        if saved.client != client:
            raise RunError(f"it is client {saved.client!r}'s, expected {client!r}'s")
    except Locked as error:
        raise Locked(f"{path}: {error}. The file is left as it is") from error
    except OtherRelease as error:
        raise OtherRelease(
            f"client {client!r}: {path}: {error}. The file is left as it is: install a release "
            "that reads it, or give this device another state-dir"
        ) from error
    except RunError as error:
        aside = _put_aside(path)
        log.warning(
            "client %s: %s: %s; kept aside as %s. This device starts from the server's next "
            "download",
            client,
            path,
            error,
            aside.name,
        )
        return None
    return saved


def read_state(path: Path) -> Saved | None:
    """Return a file's state, None where there is none that this release can read."""
    try:
        return Saved.of_bytes(unseal(path.read_bytes(), path.parent.name))
    except (OSError, RunError):
        return None


def latest(states: Iterable[Saved | None], run: str, method: str) -> Saved | None:
    """Return the state of the latest round among those of a run's method."""
    mine = [saved for saved in states if saved is not None and saved.is_of(run, method)]
    return max(mine, key=lambda saved: saved.round, default=None)


def _put_aside(path: Path) -> Path:
    for number in range(1, 1000):
        aside = path.with_name(f"damaged-{number}.safetensors")
        if not aside.exists():
            try:
                os.replace(path, aside)
            except OSError as error:
                raise RunError(f"{path}: cannot be moved aside ({error})") from error
            return aside
    raise RunError(f"{path.parent}: a thousand damaged states; look at this device's disk")


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

    Raises OSError where one cannot be removed.
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
