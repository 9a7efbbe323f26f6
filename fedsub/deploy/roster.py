"""The roster of a federation's people, which its owner keeps: made once, and then longer."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from fedsub.deploy.keys import make_node_key
from fedsub_core.errors import RunError
from fedsub_core.files import make_folder, write_whole
from fedsub_core.identifiers import CLIENT_ID_RULE, is_client_id
from fedsub_core.secure.roster import Roster, private_of, public_line, public_of

#: The roster, and its owner's private key; the public half ends in ``.pub``.
ROSTER_FILE, OWNER_FILE = "roster.txt", "roster-owner"


def add_to_roster(folder: Path, files: Mapping[str, Path]) -> Roster:
    """Add people to the roster in `folder`, with their public keys; return it.

    Where there is none, it is made, and its owner's key with it.

    Parameters
    ----------
    files : each person's public key, by id.

    Raises
    ------
    RunError
        If a key is none, is somebody else's or another than before, or a file cannot be read or
        written.
    """
    path, key = folder / ROSTER_FILE, folder / OWNER_FILE
    added = {client: _key(client, file) for client, file in files.items()}
    try:
        make_folder(folder)
    except OSError as error:
        raise RunError(f"{folder}: {error.strerror}, expected a folder for the roster") from None
    if not path.exists() and not key.exists():
        make_node_key(key)
    try:
        owner = private_of(key)
    except ValueError as error:
        raise RunError(f"{key}: the key of the roster's owner: {error}") from None
    try:
        before = Roster({})
        if path.exists():
            before = Roster.read(path.read_bytes(), public_of(owner))
        after = Roster({**before.people, **added})
        after.demand_after(before)
        data = after.signed_by(owner)
        Roster.read(data, public_of(owner))
    except (OSError, ValueError) as error:
        raise RunError(f"{path}: {error}; a roster grows and changes nothing") from None
    write_whole(path, data)
    return after


def _key(client: str, file: Path) -> str:
    if not is_client_id(client):
        raise RunError(f"roster: got the id {client!r}, expected {CLIENT_ID_RULE}")
    try:
        return public_line(file.read_bytes())
    except OSError as error:
        why = f"got {error.strerror}, expected a public key"
    except ValueError as error:
        why = str(error)
    raise RunError(f"roster: {client}: {file}: {why}")
