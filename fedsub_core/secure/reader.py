"""What reads records of secure sums that came from the other side, in which it trusts nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fedsub_core.errors import MessageRefused, cut
from fedsub_core.identifiers import CLIENT_ID_RULE, is_client_id
from fedsub_core.secure.keys import KEY_BYTES, Words, agreed, private_key
from fedsub_core.secure.messages import (
    CLIENTS,
    LEAF_BYTES,
    MOST_PEOPLE,
    SEALED_BYTES,
    SESSION_BYTES,
    SIGNERS,
    TOLD_BYTES,
    VIEW_BYTES,
    Keys,
    Name,
    Plan,
    Unmask,
)
from fedsub_core.secure.roster import SIGNATURE_BYTES
from fedsub_core.secure.transcript import OWN_OF_PLAN, alike, digest
from fedsub_core.version import SUMS_VERSION

#: With which every key agrees that is one.
_ANY = private_key(bytes(KEY_BYTES))


@dataclass(frozen=True)
class Reader:
    """Reads records that came from the other side.

    Parameters
    ----------
    client, round : whom errors name.
    """

    client: str
    round: int

    def refuse(self, what: str, got: object, expected: object) -> MessageRefused:
        """Return the error for a part of a record."""
        return MessageRefused(self.client, self.round, what, cut(got), str(expected))

    def name(self, record: Mapping[str, Any]) -> Name:
        """Return the name of the sum that a record is about."""
        if (version := record.get("version", 1)) != SUMS_VERSION:
            raise self.refuse("secure sums", f"version {version!r}", f"version {SUMS_VERSION}")
        round, session = record.get("round"), record.get("session")
        if type(round) is not int or not isinstance(session, bytes):
            raise self.refuse("secure sum", f"round {round!r}", "its round and session")
        if round != self.round or len(session) != SESSION_BYTES:
            expected = f"round {self.round}, {SESSION_BYTES} bytes"
            raise self.refuse("secure sum", f"round {round}, {len(session)} bytes", expected)
        return Name(round, session, str(record.get("run", "")), str(record.get("method", "")))

    def keys(self, record: Mapping[str, Any]) -> Keys:
        """Return the keys that somebody shows."""
        joined = record.get("keys")
        if not isinstance(joined, bytes) or len(joined) != 3 * KEY_BYTES:
            raise self.refuse("secure sum: keys", type(joined).__name__, f"{3 * KEY_BYTES} bytes")
        shown = Keys.of(joined)
        for key in (shown.seal, shown.mask):
            try:
                agreed(_ANY, key, b"")
            except ValueError:
                # Each of its neighbours would refuse to go on, and there would be no sum.
                raise self.refuse("secure sum: keys", "no point of a secret", "a key") from None
        return shown

    def words(self, record: Mapping[str, Any], length: int) -> Words:
        """Return a masked vector, ``[length]``."""
        vector, size = record.get("vector"), 4 * length
        if not isinstance(vector, bytes) or len(vector) != size:
            got = f"{len(vector)} bytes" if isinstance(vector, bytes) else type(vector).__name__
            raise self.refuse("secure sum", got, f"{size} bytes")
        return np.frombuffer(vector, "<u4").astype(np.uint32)

    def whole(self, record: Mapping[str, Any], key: str) -> int:
        """Return a whole number from 1 to 2**31."""
        value = record.get(key)
        if type(value) is not int or not 1 <= value < 2**31:
            raise self.refuse(f"secure sum: {key}", repr(value), "1 to 2**31")
        return value

    def values(
        self,
        record: Mapping[str, Any],
        size: int,
        clients: Sequence[str] | None = None,
        keys: tuple[str, str] = CLIENTS,
    ) -> dict[str, bytes]:
        """Return values of `size` bytes each by client: of all `clients`, if they are given."""
        names, values = self.names(record, keys[0]), record.get(keys[1])
        if not isinstance(values, list) or len(values) != len(names):
            raise self.refuse(f"secure sum: {keys[1]}", "another number", f"{len(names)} of them")
        for name, value in zip(names, values, strict=True):
            if not isinstance(value, bytes) or len(value) != size:
                got = f"{len(value)} bytes" if isinstance(value, bytes) else type(value).__name__
                raise self.refuse(f"secure sum: of {name!r}", got, f"{size} bytes")
        if clients is not None and sorted(names) != sorted(clients):
            raise self.refuse("secure sum: clients", sorted(names), sorted(clients))
        return dict(zip(names, values, strict=True))

    def names(self, record: Mapping[str, Any], key: str) -> tuple[str, ...]:
        """Return a list of clients, each named once."""
        names = record.get(key)
        if not isinstance(names, list) or len(names) > MOST_PEOPLE:
            raise self.refuse(f"secure sum: {key}", type(names).__name__, "a list of client ids")
        for name in names:
            if not isinstance(name, str) or not is_client_id(name):
                raise self.refuse(f"secure sum: {key}", repr(name), CLIENT_ID_RULE)
        if len(set(names)) < len(names):
            raise self.refuse(f"secure sum: {key}", "somebody twice", "each client once")
        return tuple(names)

    def plan(self, record: Mapping[str, Any]) -> Plan:
        """Return the plan that came with a download."""
        sealed = self.values(record, SEALED_BYTES)
        whole = self.whole(record, "weight"), self.whole(record, "each")
        smallest = self.whole(record, "smallest") if "smallest" in record else 0
        head = self.hash(record, "head") if "head" in record else b""
        told = digest(alike(record, OWN_OF_PLAN))
        return Plan(self.name(record), sealed, *whole, told, smallest, head)

    def people(self, record: Mapping[str, Any]) -> list[bytes]:
        """Return the list of a sum's people where it came, ascending; none: it did not."""
        joined = record.get("people", b"")
        if not isinstance(joined, bytes) or len(joined) > LEAF_BYTES * MOST_PEOPLE:
            raise self.refuse("secure sum: people", type(joined).__name__, "a list of them")
        leaves = [joined[i : i + LEAF_BYTES] for i in range(0, len(joined), LEAF_BYTES)]
        if leaves != sorted(set(leaves)) or len(joined) % LEAF_BYTES:
            raise self.refuse("secure sum: people", "a list out of order", "each once, ascending")
        return leaves

    def hash(self, record: Mapping[str, Any], key: str) -> bytes:
        """Return a hash in a record: of what somebody was told of a sum, or of a transcript."""
        value = record.get(key)
        if not isinstance(value, bytes) or len(value) != TOLD_BYTES:
            raise self.refuse(f"secure sum: {key}", type(value).__name__, f"{TOLD_BYTES} bytes")
        return value

    def unmask(self, record: Mapping[str, Any]) -> Unmask:
        """Return the request to open masks."""
        sent, silent = (self.names(record, key) for key in ("sent", "silent"))
        views = self.values(record, VIEW_BYTES, keys=SIGNERS) if SIGNERS[0] in record else {}
        return Unmask(self.name(record), sent, silent, views)

    def view(self, record: Mapping[str, Any]) -> bytes:
        """Return the hash of what somebody saw, and its signature behind."""
        view, signature = record.get("view"), self.signature(record)
        if not isinstance(view, bytes) or len(view) != TOLD_BYTES or not signature:
            raise self.refuse("secure sum: view", type(view).__name__, "a hash, signed")
        return view + signature

    def signature(self, record: Mapping[str, Any]) -> bytes:
        """Return the signature of somebody who goes by a roster; none: it did not come."""
        signature = record.get("signature", b"")
        if not isinstance(signature, bytes) or len(signature) not in (0, SIGNATURE_BYTES):
            got = type(signature).__name__
            raise self.refuse("secure sum: signature", got, f"{SIGNATURE_BYTES} bytes")
        return signature
