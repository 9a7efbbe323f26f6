"""Who joins with which code: once each, also where the server or the device dies in between.

A code is first claimed for one key, in a file that survives power loss. Then the key is registered
with Flower. Whoever asks again with the same code, key and name is answered again, and so finishes
what was interrupted; with another key, nobody is.
"""

import csv
import io
import os
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import astuple, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Protocol

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    PublicFormat,
    load_pem_public_key,
)

from fedsub.deploy.codes import JoinRequest, token_hash
from fedsub.deploy.invitations import Invitation, folder_of_invitations, read_batches
from fedsub_core.errors import FedSubError, RunError
from fedsub_core.files import private, write_whole
from fedsub_core.flower.nodes import RegisteredNode
from fedsub_core.identifiers import CLIENT_ID_RULE, is_client_id
from fedsub_core.secure.roster import is_signed

#: In the folder of invitations: who has joined.
JOINED_FILE = "joined.db"
_SCHEMA = """create table if not exists joined (
    token_hash text primary key, number text not null, client text not null, key text not null,
    seal text not null, federation text not null, superlink text not null, joined text not null,
    node text not null default '') strict"""


class JoinRefused(FedSubError):
    """A join that was refused, and has changed nothing.

    Parameters
    ----------
    status : HTTP's.
    got, expected : what came, and what was expected.
    """

    def __init__(self, status: int, got: str, expected: str) -> None:
        super().__init__(f"join: got {got}, expected {expected}")
        self.status, self.got, self.expected = status, got, expected


class Nodes(Protocol):
    """The devices that a SuperLink knows."""

    def read(self) -> list[RegisteredNode]:
        """Return all that were ever registered."""

    def add(self, name: str, key: bytes) -> int:
        """Register a key under a name, and return its node's id; ValueError: it is known."""


@dataclass(frozen=True)
class Joined:
    """Somebody who claimed an invitation; times are UTC, `node` is "" until it is registered."""

    token_hash: str
    number: str
    client: str
    key: str
    seal: str
    federation: str
    superlink: str
    joined: str
    node: str = ""


@contextmanager
def _database(folder: Path, mode: str = "rwc") -> Iterator[sqlite3.Connection]:
    path = folder / JOINED_FILE
    try:
        if mode == "rwc":
            os.close(private(path, os.O_CREAT | os.O_RDWR))
        opened = sqlite3.connect(f"{path.resolve().as_uri()}?mode={mode}", 60, uri=True)
        with closing(opened), opened:
            opened.execute("pragma synchronous = extra")
            yield opened
    except (OSError, sqlite3.DatabaseError) as error:
        raise RunError(f"{path}: got {error}, expected the file of who has joined") from error


def read_joined(folder: Path) -> list[Joined]:
    """Return the people who have joined, in the order in which they came.

    Raises RunError if the file cannot be read.
    """
    if not (folder / JOINED_FILE).exists():
        return []
    with _database(folder, "ro") as opened:
        return [Joined(*row) for row in opened.execute("select * from joined order by rowid")]


def write_keys(path: Path, people: Sequence[Joined]) -> None:
    """Write people's public keys with their seals, for the owner of a roster.

    Raises RunError if the file cannot be written.
    """
    text = io.StringIO()
    table = csv.writer(text, lineterminator="\n")
    table.writerow(["number", "client", "key", "seal"])
    table.writerows([one.number, one.client, one.key, one.seal] for one in people)
    write_whole(path, text.getvalue().encode())


class Joins:
    """Register of who joins. One process has it, and calls it from one thread at a time.

    Parameters
    ----------
    nodes : the devices that the SuperLink knows.

    Raises RunError if the folder or a file in it cannot be used.
    """

    def __init__(self, folder: Path, nodes: Nodes) -> None:
        folder_of_invitations(folder)
        read_batches(folder)
        self._folder, self._nodes = folder, nodes
        with _database(folder) as opened:
            opened.execute(_SCHEMA)

    def join(self, request: JoinRequest) -> Joined:
        """Register a device's key, and return what is known of it; again for the same request.

        Raises JoinRefused if the code is unknown, used or ended, the key did not sign, or name or
        key are taken. Raises RunError if a file cannot be read or written. The same request may
        come again.
        """
        hashed = token_hash(request.token)
        claim = next((one for one in read_joined(self._folder) if one.token_hash == hashed), None)
        invitation = None
        if claim is None:
            invitation = read_batches(self._folder).get(hashed)
            _demand_open(invitation)
        elif (claim.client, claim.key, claim.seal) != (request.client, request.key, request.seal):
            raise JoinRefused(403, "a code that was used", "one of your own, used once")
        _demand_signed(request)
        if invitation is not None:
            claim = self._claim(invitation, request)
        assert claim is not None
        node = self._register(claim)
        with _database(self._folder) as opened:
            opened.execute("update joined set node = ? where token_hash = ?", (str(node), hashed))
        return replace(claim, node=str(node))

    def _claim(self, invitation: Invitation, request: JoinRequest) -> Joined:
        """Give an invitation to one key for good."""
        name, key = request.client, request.key.encode()
        if not is_client_id(name) or invitation.client not in ("", name):
            expected = invitation.client or CLIENT_ID_RULE
            raise JoinRefused(403, f"the name {name!r}", f"{expected}")
        nodes = self._nodes.read()
        if any(node.key == key for node in nodes):
            raise JoinRefused(409, "a key that was registered before", "a new one")
        if not invitation.client and not all(is_client_id(node.name) for node in nodes):
            # Such a key is that of the client as which it came first: only the operator knows who.
            said = "an invitation for any name, where keys were registered without one"
            raise JoinRefused(409, said, "one for your name (invite --person)")
        same = [node for node in nodes if node.name.casefold() == name.casefold()]
        with _database(self._folder) as opened:
            begun = opened.execute(
                "select token_hash from joined where node = '' and lower(client) = lower(?)",
                (name,),
            ).fetchall()
            # An invitation of one's own may take the place of what one lost or began.
            own = invitation.client and all(node.revoked for node in same)
            if (same or begun) and not own:
                raise JoinRefused(409, f"the name {name!r}, which is taken", "another")
            opened.executemany("delete from joined where token_hash = ?", begun)
            claim = Joined(
                invitation.token_hash,
                invitation.number,
                name,
                request.key,
                request.seal,
                invitation.federation,
                invitation.superlink,
                f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}",
            )
            opened.execute("insert into joined values (?, ?, ?, ?, ?, ?, ?, ?, ?)", astuple(claim))
        return claim

    def _register(self, claim: Joined) -> int:
        """Register the key of a claim, unless it is; return its node's id."""
        key = claim.key.encode()
        found = next((node for node in self._nodes.read() if node.key == key), None)
        if found is not None and found.revoked:
            raise JoinRefused(410, "a key that was revoked", "a new key, with a new invitation")
        if found is not None:
            return found.node
        try:
            return self._nodes.add(claim.client, key)
        except ValueError as error:  # somebody registered it by hand in this moment: see above
            raise JoinRefused(409, "a key that was registered before", "a new one") from error


def _demand_open(invitation: Invitation | None) -> None:
    if invitation is None:
        raise JoinRefused(403, "an unknown code", "one of an invitation")
    if invitation.ended(datetime.now(UTC)):
        raise JoinRefused(403, f"a code that ended at {invitation.until}", "a new invitation")


def _demand_signed(request: JoinRequest) -> None:
    """Refuse a key of another kind or form, or one that has not signed."""
    try:
        key = load_pem_public_key(request.key.encode())
    except (ValueError, UnsupportedAlgorithm):
        raise JoinRefused(400, "no public key", "one of P-384 in PEM") from None
    if not isinstance(key, ec.EllipticCurvePublicKey) or key.curve.name != ec.SECP384R1.name:
        raise JoinRefused(400, "a public key of another kind", "one of P-384 in PEM")
    # Flower compares the bytes of keys: another form of the same key would never be let in.
    if key.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo) != request.key.encode():
        raise JoinRefused(400, "a PEM of another form", "lines of 64 characters, a line end last")
    line = key.public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH).decode()
    if not is_signed(line, request.signature, request.text):
        raise JoinRefused(401, "a signature of another key or text", "the key's own")
