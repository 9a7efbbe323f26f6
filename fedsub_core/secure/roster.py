"""A roster: who the people of a federation are, by their public keys, as its owner signs them.

The server passes on the keys that people show for a sum. Who goes by a roster takes such keys from
these people alone, and not from the server. A roster is text, one person a line, and grows at its
end: nobody's key changes, and nobody is taken out. So its number is that of its people.

Keys are of curve P-384 in OpenSSH's format, as those by which devices prove themselves to Flower.
Signatures are ECDSA's with SHA-384 (FIPS 186-5), both numbers of 48 bytes, one after another.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import (
    decode_dss_signature,
    encode_dss_signature,
)
from cryptography.hazmat.primitives.hashes import SHA384
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    PublicFormat,
    load_ssh_private_key,
    load_ssh_public_key,
)

from fedsub_core.errors import cut
from fedsub_core.identifiers import CLIENT_ID_RULE, is_client_id
from fedsub_core.secure.transcript import digest

#: What a roster begins with, and what its last line does.
FIRST_LINE, SIGNED = "fedsub-roster 1", "signature"
_NUMBER_BYTES = 48
SIGNATURE_BYTES = 2 * _NUMBER_BYTES


@dataclass(frozen=True)
class Roster:
    """People's public keys.

    Parameters
    ----------
    people : each person's key, as :func:`public_line` writes it, by id.
    """

    people: Mapping[str, str]

    @property
    def number(self) -> int:
        """The number of the roster, which is how many people it has."""
        return len(self.people)

    def signed_by(self, owner: ec.EllipticCurvePrivateKey) -> bytes:
        """Return the roster's file, with its owner's signature as the last line."""
        text = self._text()
        return text + f"{SIGNED} {signature_of(owner, text).hex()}\n".encode()

    @classmethod
    def read(cls, data: bytes, owner: str) -> Roster:
        """Inverse of :meth:`signed_by`.

        Parameters
        ----------
        owner : its owner's public key, as a line.

        Raises ValueError if it is none, is cut off, names somebody or a key twice, or another key
        signed it.
        """
        text, _, last = data.rpartition(f"\n{SIGNED} ".encode())
        if not data.startswith(f"{FIRST_LINE}\n".encode()):
            raise ValueError(f"got {cut(data[:40])}, expected {FIRST_LINE!r} as its first line")
        if not text or not data.endswith(b"\n"):
            raise ValueError("got a file without a whole signature, expected one as its last line")
        people = _people_of(text.decode("utf-8", "replace").split("\n")[1:])
        try:
            signature = bytes.fromhex(last.decode("ascii", "replace"))
        except ValueError:
            raise ValueError(f"got the signature {cut(last)}, expected hexadecimal") from None
        if len(signature) != SIGNATURE_BYTES:
            expected = f"{SIGNATURE_BYTES} bytes: the file is cut off"
            raise ValueError(f"got a signature of {len(signature)} bytes, expected {expected}")
        if not is_signed(owner, signature, text + b"\n"):
            raise ValueError(f"got a signature of another key, expected that of {shown(owner)}")
        return cls(people)

    def demand_after(self, seen: Roster) -> None:
        """Refuse a roster that is not an earlier one, `seen`, with people added at most.

        Raises ValueError if it is not; with all who are gone or have another key.
        """
        if gone := [one for one in seen.people if one not in self.people]:
            raise ValueError(
                f"got a roster of {self.number} without {cut(', '.join(gone))}, expected all "
                f"{seen.number} of the one seen before"
            )
        changed = [one for one, key in seen.people.items() if self.people[one] != key]
        if changed:
            keys = ", ".join(f"{shown(seen.people[one])} of {one!r}" for one in changed)
            raise ValueError(f"got another key of {cut(', '.join(changed))}, expected {cut(keys)}")

    def fault(
        self, client: str, signature: bytes, record: Mapping[str, object]
    ) -> tuple[str, str] | None:
        """Return the fault of somebody's signature of plain values; None without one.

        That is what came and what was expected.
        """
        if (key := self.people.get(client)) is None:
            return (
                f"{client!r}, who is not in the roster",
                f"one of the {self.number} of the roster",
            )
        if not is_signed(key, signature, _statement(client, record)):
            got = f"what {client!r} did not sign for this run, round and session"
            return got, f"a signature of its key in the roster, {shown(key)}"
        return None

    def _text(self) -> bytes:
        lines = [FIRST_LINE, *(f"{client} {key}" for client, key in self.people.items())]
        return "".join(f"{line}\n" for line in lines).encode()


@dataclass(frozen=True)
class Signer:
    """A person who signs what it shows in sums, and goes by a roster of the others.

    Parameters
    ----------
    own : its private key.
    """

    client: str
    own: ec.EllipticCurvePrivateKey
    roster: Roster

    def sign(self, record: Mapping[str, object]) -> bytes:
        """Return its signature of plain values."""
        return signature_of(self.own, _statement(self.client, record))

    def fault(
        self, client: str, signature: bytes, record: Mapping[str, object]
    ) -> tuple[str, str] | None:
        """Return :meth:`Roster.fault`."""
        return self.roster.fault(client, signature, record)


def _statement(client: str, record: Mapping[str, object]) -> bytes:
    return f"fedsub sums {digest({**record, 'client': client})}".encode()


def _people_of(lines: list[str]) -> dict[str, str]:
    people: dict[str, str] = {}
    owners: dict[str, str] = {}
    for line in lines:
        client, _, key = line.partition(" ")
        if not is_client_id(client):
            raise ValueError(f"got the id {cut(client)!r}, expected {CLIENT_ID_RULE}")
        if client in people:
            raise ValueError(f"got {client!r} twice, expected each person once")
        try:
            people[client] = public_line(key.encode())
        except ValueError as error:
            raise ValueError(f"{client!r}: {error}") from None
        if (other := owners.setdefault(people[client], client)) != client:
            raise ValueError(f"got one key of {other!r} and of {client!r}, expected two")
    return people


# Keys and signatures.


def public_line(written: bytes) -> str:
    """Return a public key in OpenSSH's format as one line, without a comment.

    Raises ValueError if it is none of curve P-384.
    """
    try:
        key = load_ssh_public_key(written.strip())
    except (ValueError, UnsupportedAlgorithm) as error:
        raise ValueError(f"got no public key ({cut(error)}), expected one of P-384") from None
    if not isinstance(key, ec.EllipticCurvePublicKey) or key.curve.name != ec.SECP384R1.name:
        raise ValueError("got a public key of another kind, expected one of P-384")
    return key.public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH).decode()


def public_of(private: ec.EllipticCurvePrivateKey) -> str:
    """Return the public key of a private one as a line."""
    return private.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH).decode()


def private_of(path: Path) -> ec.EllipticCurvePrivateKey:
    """Return the private key of a file in OpenSSH's format.

    Raises ValueError if it is none of curve P-384, cannot be read, or others than its owner can
    read it.
    """
    try:
        mode, written = path.stat().st_mode & 0o777, path.read_bytes()
    except OSError as error:
        raise ValueError(f"got {error.strerror}, expected a private key") from None
    if os.name == "posix" and mode & 0o077:
        raise ValueError(f"got mode {mode:o}, expected 600: others can read this key")
    try:
        key = load_ssh_private_key(written, password=None)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        raise ValueError("got no private key, expected one of P-384") from None
    if not isinstance(key, ec.EllipticCurvePrivateKey) or key.curve.name != ec.SECP384R1.name:
        raise ValueError("got a key of another kind, expected one of P-384")
    return key


def signature_of(private: ec.EllipticCurvePrivateKey, text: bytes) -> bytes:
    """Return a signature, 96 bytes."""
    numbers = decode_dss_signature(private.sign(text, ec.ECDSA(SHA384())))
    return b"".join(number.to_bytes(_NUMBER_BYTES, "big") for number in numbers)


def is_signed(public: str, signature: bytes, text: bytes) -> bool:
    """Whether a text's signature is that of a public key, which is a line."""
    key = load_ssh_public_key(public.encode())
    assert isinstance(key, ec.EllipticCurvePublicKey)
    if len(signature) != SIGNATURE_BYTES:
        return False
    halves = signature[:_NUMBER_BYTES], signature[_NUMBER_BYTES:]
    try:
        numbers = (int.from_bytes(half, "big") for half in halves)
        key.verify(encode_dss_signature(*numbers), text, ec.ECDSA(SHA384()))
    except InvalidSignature:
        return False
    return True


def shown(public: str) -> str:
    """Return a few characters of a public key, by which people tell keys apart."""
    return f"...{public[-16:]}"
