"""A person's leave from the device: its state is deleted here, and the server is told.

A file in the person's folder of the state-dir says so. It stays, as a server that is away now, or
another run, must be told, too.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from flwr.app import RecordDict

from fedsub_client.store import LEAVING_FILE, FolderStore
from fedsub_core.errors import RunError
from fedsub_core.files import write_whole
from fedsub_core.identifiers import CLIENT_ID_RULE, is_client_id
from fedsub_core.wire.joined import separate
from fedsub_core.wire.leaving import LEAVE, LEFT, leave_record, read_left

log = logging.getLogger("fedsub")

#: The record for the person, in words.
RECORD_FILE = "what-was-deleted.txt"


def leave(state_dir: Path, client: str) -> list[str]:
    """Note that a person leaves, and delete what the device keeps; return the deleted names.

    The note comes first. Whatever stops this half-way, it can be done again.

    Raises RunError if there is no such folder, or something in it cannot be written or deleted.
    """
    folder = state_dir / client
    if not is_client_id(client):
        raise RunError(f"client {client!r}: expected its node's client-id, {CLIENT_ID_RULE}")
    if not state_dir.is_dir():
        raise RunError(f"{state_dir}: no such folder, expected the device's state-dir")
    there = sorted(path.name for path in state_dir.iterdir() if path.is_dir())
    if there and client not in there:  # one that has not begun may leave, a misspelt one not
        raise RunError(f"{state_dir}: got client {client!r}, expected {' or '.join(there)}")
    # A round that is going on ends first: after that nothing is kept any more.
    with FolderStore(state_dir, client).lock(leaving=True):
        deleted = sorted(
            path.name
            for path in folder.iterdir()
            if path.name not in ("lock", LEAVING_FILE, RECORD_FILE)
        )
        left = json.dumps({"client": client, "since": _now()}) + "\n"
        if not (folder / LEAVING_FILE).exists():
            write_whole(folder / LEAVING_FILE, left.encode())
        gone = list[str]()
        try:
            for name in deleted:
                (folder / name).unlink()
                gone.append(f"{name} was deleted")
        except OSError as error:
            raise RunError(f"{folder}: {error}; expected files of the device alone") from error
        finally:
            _note(folder, "On this device", gone, [])
    return deleted


def farewell(node: Mapping[str, Any], content: RecordDict) -> RecordDict | None:
    """Return a device's answer once its person left; None where the person takes part.

    What the server says that it deleted is kept in a file for the person.

    Raises MessageRefused if that is no such record. Raises RunError if it cannot be written.
    """
    client, where = str(node.get("client-id", "")), node.get("state-dir")
    if not client or not where:
        return None
    folder = Path(str(where)) / client
    if not (folder / LEAVING_FILE).exists():
        return None
    content = separate(content, client)
    if LEFT in content:
        left = read_left(content[LEFT], client)
        _note(folder, "On the server", left.deleted, left.remains)
    else:
        log.warning("client %s: left: the server is told, and nothing else is answered", client)
    return RecordDict({LEAVE: leave_record(client)})


def _note(folder: Path, where: str, deleted: Sequence[str], remains: Sequence[str]) -> None:
    """Add to the person's record what was deleted, and what cannot be."""
    path = folder / RECORD_FILE
    before = path.read_text("utf-8") if path.exists() else ""
    lines = [f"{where}, {_now()}:", *(f"- {text}" for text in deleted or ["nothing was kept"])]
    if remains:
        lines += ["What cannot be deleted there:", *(f"- {text}" for text in remains)]
    write_whole(path, (before + "\n".join(lines) + "\n\n").encode())


def _now() -> str:
    return f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC"
