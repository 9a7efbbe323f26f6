"""The roster of a federation's people, which its owner keeps: made once, and then longer."""

import csv
import hmac
import io
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    PublicFormat,
    load_pem_public_key,
)

from fedsub.deploy.codes import seal_of
from fedsub.deploy.keys import make_node_key
from fedsub_core.errors import RunError, cut
from fedsub_core.files import make_folder, write_whole
from fedsub_core.identifiers import CLIENT_ID_RULE, is_client_id
from fedsub_core.secure.roster import Roster, private_of, public_line, public_of

#: The roster, and its owner's private key; the public half ends in ``.pub``.
ROSTER_FILE, OWNER_FILE = "roster.txt", "roster-owner"


def joined_keys(path: Path, codes: Mapping[str, str]) -> dict[str, str]:
    """Return the keys of people who joined, as lines, by id, in the order of a server's file.

    Each has a seal, which only who has the invitation's code can make. So the server can leave
    people out, and put nobody and no other key in.

    Parameters
    ----------
    path : what ``fedsub deploy people --keys`` wrote on the server.
    codes : the owner's, by number of the invitation; people of other numbers are left out.

    Raises RunError if it is none, comes twice, or a seal is not that of the code, name and key.
    """
    try:
        rows = list(csv.DictReader(io.StringIO(path.read_text(encoding="utf-8"), newline="")))
        people = dict[str, str]()
        for row in rows:
            if (code := codes.get(row["number"])) is None:
                continue
            client, key = row["client"], row["key"]
            if client in people or not hmac.compare_digest(seal_of(code, client, key), row["seal"]):
                raise ValueError(f"got a wrong seal, or a second key, of {cut(client)!r}")
            public = load_pem_public_key(key.encode())
            line = public.public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH)
            people[client] = public_line(line)
    except (OSError, ValueError, KeyError, UnsupportedAlgorithm) as error:
        raise RunError(f"{path}: {error}; expected people with the seals of their codes") from error
    return people


def add_to_roster(
    folder: Path, files: Mapping[str, Path], joined: Mapping[str, str] = MappingProxyType({})
) -> Roster:
    """Add people to the roster in `folder`, with their public keys; return it.

    Where there is none, it is made, and its owner's key with it.

    Parameters
    ----------
    files : each person's public key, by id.
    joined : keys of people who joined, as lines.

    Raises RunError if a key is none, is somebody else's or another than before, or a file cannot be
    read or written.
    """
    path, key = folder / ROSTER_FILE, folder / OWNER_FILE
    added = {**joined, **{client: _key(client, file) for client, file in files.items()}}
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
