"""A state's file in a client's folder: read whole, or put aside where it is damaged."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable
from pathlib import Path

from fedsub_client.saved_state import Saved
from fedsub_core.errors import OtherRelease, RunError

log = logging.getLogger("fedsub")


def load_state(path: Path, client: str) -> Saved | None:
    """Return the state in a file; None where there is none, or it is not a whole one of `client`.

    Then the file is kept aside under another name, and that is said.

    Raises
    ------
    OtherRelease
        Where a release wrote it whose files this one does not read. It stays as it is.
    RunError
        Where there is a file that cannot be read or moved.
    """
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise RunError(f"{path}: cannot be read ({error})") from error
    try:
        saved = Saved.of_bytes(data)
        if saved.client != client:
            raise RunError(f"it is client {saved.client!r}'s, expected {client!r}'s")
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
        return Saved.of_bytes(path.read_bytes())
    except (OSError, RunError):
        return None


def latest(found: Iterable[Saved | None], run: str, method: str) -> Saved | None:
    """Return the state of the latest round among those of a run's method."""
    mine = [saved for saved in found if saved is not None and saved.is_of(run, method)]
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
