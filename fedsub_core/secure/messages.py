"""What server and devices tell each other for one sum, as records of plain values.

``docs/wire-format.md`` says the same. Whoever reads one trusts nothing in it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from fedsub_core.errors import MessageRefused, cut
from fedsub_core.identifiers import CLIENT_ID_RULE, is_client_id
from fedsub_core.secure.keys import KEY_BYTES, TAG_BYTES
from fedsub_core.secure.roster import SIGNATURE_BYTES
from fedsub_core.secure.shamir import SHARE_BYTES
from fedsub_core.secure.transcript import OWN_OF_PLAN, alike, digest
from fedsub_core.version import SUMS_VERSION

#: The name of the record in a message.
SECURE = "secure"
#: What queries ask for. After the second the plan of the sum comes with a download, or, before the
#: first round, with a query for moments.
KEYS, SHARES, MOMENTS, UNMASK = "keys", "shares", "moments", "unmask"
#: What those are asked for, before the last, who go by a roster; and for a vector once more.
VIEW, AGAIN = "view", "again"
#: What moments are of.
SAMPLES, FEATURES = "samples", "features"
SESSION_BYTES = 16
SEALED_BYTES = 2 * SHARE_BYTES + TAG_BYTES
#: People of one sum at most.
MOST_PEOPLE = 2**20
#: Of somebody in the list of a sum's people, and of what an opened sum's people say they were told.
LEAF_BYTES = TOLD_BYTES = 32
#: Of somebody's signed keys, and of the hash of what somebody saw with its signature.
SIGNED_KEYS_BYTES, VIEW_BYTES = 3 * KEY_BYTES + SIGNATURE_BYTES, TOLD_BYTES + SIGNATURE_BYTES

Record = dict[str, Any]


@dataclass(frozen=True)
class Name:
    """Which sum it is.

    Parameters
    ----------
    round : of the run.
    session : random; tells a round that is repeated, as after a crash, from itself.
    run, method : as in a turn.
    """

    round: int
    session: bytes
    run: str = ""
    method: str = ""

    def record(self, phase: str) -> Record:
        """Return the message as plain values."""
        name = {"version": SUMS_VERSION, "phase": phase, "round": self.round}
        return {**name, "session": self.session, "run": self.run, "method": self.method}


@dataclass(frozen=True)
class Keys:
    """What somebody shows for one sum: two public keys, and what its self mask's seed is held to.

    Parameters
    ----------
    seal, mask : that shares are sealed for, and that pairs of masks are made with.
    commitment : :func:`fedsub_core.secure.keys.commitment`.
    """

    seal: bytes
    mask: bytes
    commitment: bytes

    def joined(self) -> bytes:
        """Return all three, one after another."""
        return self.seal + self.mask + self.commitment

    @classmethod
    def of(cls, joined: bytes) -> Keys:
        """Inverse of :meth:`joined`."""
        return cls(*(joined[i : i + KEY_BYTES] for i in range(0, 3 * KEY_BYTES, KEY_BYTES)))


@dataclass(frozen=True)
class Plan:
    """What comes with a download: neighbours' sealed shares, and how numbers become whole.

    Parameters
    ----------
    sealed : by neighbour.
    weight, each : :class:`fedsub_core.secure.quantise.Levels`.
    told : hash of all of it that everybody is told, also of what this release does not read.
    smallest : people of a group at least, if the sum is made anew in groups; 0: it is not.
    head : of the run's transcript (:mod:`fedsub_core.secure.chain`); none: the server keeps none.
    """

    name: Name
    sealed: Mapping[str, bytes]
    weight: int
    each: int
    told: str = ""
    smallest: int = 0
    head: bytes = b""

    def record(self, phase: str = "sum") -> Record:
        """Return the message as plain values."""
        numbers: Record = {"weight": self.weight, "each": self.each}
        if self.smallest:
            numbers["smallest"] = self.smallest
        if self.head:
            numbers["head"] = self.head
        return self.name.record(phase) | by_client(self.sealed) | numbers


@dataclass(frozen=True)
class Unmask:
    """Whose masks are to be opened: of who sent its vector its own, of who did not those of pairs.

    Parameters
    ----------
    sent, silent : ids, ascending.
    views : what all others saw of who sent and who did not, signed, where they go by a roster.
    """

    name: Name
    sent: tuple[str, ...]
    silent: tuple[str, ...]
    views: Mapping[str, bytes] = field(default_factory=dict)

    def record(self, phase: str = UNMASK) -> Record:
        """Return the message as plain values."""
        named = {"sent": list(self.sent), "silent": list(self.silent)}
        views = by_client(self.views, SIGNERS) if self.views else {}
        return {**self.name.record(phase), **named, **views}


#: The two keys of a record that have values by client: of neighbours, of all with signed keys, and
#: of those whose view is signed.
CLIENTS, SIGNED, SIGNERS = ("clients", "values"), ("signed", "signed_keys"), ("signers", "views")


def by_client(values: Mapping[str, bytes], keys: tuple[str, str] = CLIENTS) -> Record:
    """Return values by client as plain lists."""
    return dict(zip(keys, (list(values), list(values.values())), strict=True))


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

    def signature(self, record: Mapping[str, Any]) -> bytes:
        """Return the signature of somebody who goes by a roster; none: it did not come."""
        signature = record.get("signature", b"")
        if not isinstance(signature, bytes) or len(signature) not in (0, SIGNATURE_BYTES):
            got = type(signature).__name__
            raise self.refuse("secure sum: signature", got, f"{SIGNATURE_BYTES} bytes")
        return signature
