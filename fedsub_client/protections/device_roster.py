"""A device's roster: the node config's files, and the roster that the device saw last.

What it saw is kept in its state-dir: a later roster may have more people, and changes nothing. So
is a longer one that the server passes on, which the same owner has signed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from fedsub_core.errors import DataError, listed
from fedsub_core.files import make_folder, replace_file
from fedsub_core.secure.roster import Roster, Signer, private_of, public_line, public_of, shown

#: Of the node config: the roster's file, its owner's public key and the device's private key.
ROSTER, OWNER, KEY, FOLDER = "secure-roster", "secure-owner", "secure-key", "state-dir"
#: The roster that was seen last, behind a line with its owner's key.
SEEN_FILE = "roster-seen.txt"
#: The longest that a server has passed on.
PASSED_ON_FILE = "roster-passed-on.txt"


def signer_of(node: Mapping[str, Any], client: str) -> Signer | None:
    """Return the signer of a person's part in sums, by the node config; None without a roster.

    Raises DataError if the node config is not complete, a file is none, the person is not in the
    roster with this device's key, or the roster is not the last one with people added at most.
    """
    files = {name: str(node[name]) for name in (ROSTER, OWNER, KEY) if node.get(name)}
    if not files:
        return None
    if lacking := [name for name in (ROSTER, OWNER, KEY, FOLDER) if not node.get(name)]:
        got = f"{listed(files, 3)} without {listed(lacking, 4)}"
        raise DataError(f"client {client!r}: node config: got {got}, expected all of them")
    with _named(client, OWNER, files):
        owner = public_line(_bytes(files[OWNER]))
    with _named(client, KEY, files):
        own = private_of(Path(files[KEY]))
    with _named(client, ROSTER, files):
        data = _bytes(files[ROSTER])
        roster = Roster.read(data, owner)
        if (key := roster.people.get(client)) != public_of(own):
            has = "no key" if key is None else f"the key {shown(key)}"
            expected = f"that of {files[KEY]}, {shown(public_of(own))}"
            raise ValueError(f"got {has} of {client!r}, expected {expected}")
    folder = Path(str(node[FOLDER])) / client
    _see(folder / SEEN_FILE, client, owner, data, roster)
    if (passed_on := folder / PASSED_ON_FILE).exists():
        with _named(client, ROSTER, {ROSTER: str(passed_on)}):
            roster = _longer(roster, Roster.read(_bytes(str(passed_on)), owner))
    return Signer(client, own, roster)


def take_roster(node: Mapping[str, Any], client: str, data: bytes) -> None:
    """Keep a roster that the server passes on, if it is the device's own with people added.

    A server that has an older one is behind, and nothing changes. Without a roster of its own a
    device takes none: it has no key of an owner.

    Raises DataError if another key signed it, or somebody is gone or has another key; or it cannot
    be written.
    """
    if (signer := signer_of(node, client)) is None:
        return
    try:
        roster = Roster.read(data, public_line(_bytes(str(node[OWNER]))))
        if _longer(signer.roster, roster) is roster:
            replace_file(Path(str(node[FOLDER])) / client / PASSED_ON_FILE, data)
    except (OSError, ValueError) as error:
        raise DataError(f"client {client!r}: {ROSTER} from the server: {error}") from None


def _longer(one: Roster, other: Roster) -> Roster:
    """Return the longer of two rosters; raises ValueError if it is not the other with more."""
    known, added = list(one.people.items()), list(other.people.items())
    if known[: len(added)] == added:
        return one
    other.demand_after(one)
    return other


def _see(path: Path, client: str, owner: str, data: bytes, roster: Roster) -> None:
    """Compare a roster with the last one, and keep it in place of that.

    Raises DataError if it is not the last one with people added at most, or that cannot be read or
    written.
    """
    kept = f"{owner}\n".encode() + data
    try:
        before = path.read_bytes() if path.exists() else kept
        if before != kept:
            first, _, seen = before.partition(b"\n")
            if (known := public_line(first)) != owner:
                raise ValueError(f"got the owner's key {shown(owner)}, expected {shown(known)}")
            roster.demand_after(Roster.read(seen, known))
        if before != kept or not path.exists():
            make_folder(path.parent)
            replace_file(path, kept)
    except (OSError, ValueError) as error:
        raise DataError(
            f"client {client!r}: {ROSTER}: {error}, as in {path}, the roster seen last. Ask its "
            "owner; remove that file only if the owner says that all begins anew"
        ) from None


@contextmanager
def _named(client: str, name: str, files: Mapping[str, str]) -> Iterator[None]:
    """Say of whose node config, and of which file in it, an error is."""
    try:
        yield
    except ValueError as error:
        raise DataError(f"client {client!r}: node config: {name}: {files[name]}: {error}") from None


def _bytes(path: str) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise ValueError(f"got {error.strerror}, expected a file") from None
