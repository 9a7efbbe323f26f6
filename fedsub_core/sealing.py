"""State at rest, sealed by a passphrase: ChaCha20-Poly1305, the key by scrypt.

Where :data:`FILE` names a file with a passphrase, what is written is sealed; what is read may be
plain or sealed. A sealed block is MAGIC, salt, check of the key, nonce, ciphertext with its tag.
The tag is also over the person or group that the block is of, so that none can stand in another
person's place. It does not tell an older block, or a plain one, from the right one. The check tells
a wrong passphrase from a changed block.

Sources: RFC 7914 (scrypt), RFC 8439 (ChaCha20-Poly1305).
"""

from __future__ import annotations

import hashlib
import os
import secrets
from functools import lru_cache
from pathlib import Path

from fedsub_core.errors import RunError

#: The environment variable that names a passphrase's file.
FILE = "FEDSUB_PASSPHRASE_FILE"
MAGIC = b"fedsub-sealed-1\n"
_SALT, _CHECK, _NONCE = 16, 16, 12
_HEADER = len(MAGIC) + _SALT + _CHECK + _NONCE
#: scrypt: 32 MiB and some tenths of a second of one core.
_COST, _BLOCK = 2**15, 8
#: Characters of a passphrase at least.
SHORTEST = 12


class NotOpened(RunError):
    """A sealed block that cannot be opened: it was changed."""


class Locked(NotOpened):
    """A sealed block that is whole for all that is known: the passphrase lacks, or is another."""


def is_sealed(data: bytes) -> bool:
    """Whether a block is sealed."""
    return data.startswith(MAGIC)


def seals() -> bool:
    """Whether what is written is sealed."""
    return bool(os.environ.get(FILE))


def seal(data: bytes, name: str) -> bytes:
    """Return a block sealed under a name; as it is where no passphrase is asked for.

    Raises Locked if the passphrase's file cannot be read, or its passphrase is too short.
    """
    if not seals():
        return data
    from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

    salt, nonce = _own_salt(), secrets.token_bytes(_NONCE)
    key, check = _key(passphrase(), salt)
    sealed = ChaCha20Poly1305(key).encrypt(nonce, data, MAGIC + name.encode())
    return MAGIC + salt + check + nonce + sealed


def unseal(data: bytes, name: str) -> bytes:
    """Return the content of a block that was sealed under a name; a plain block as it is.

    Raises Locked if it is sealed, and there is no passphrase or another one. Raises NotOpened if it
    was changed since, or sealed under another name.
    """
    if not is_sealed(data):
        return data
    if not seals():
        raise Locked(f"{name}: it is sealed, expected {FILE} to name the passphrase's file")
    from cryptography.exceptions import InvalidTag
    from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

    at = len(MAGIC)
    salt, check = data[at : at + _SALT], data[at + _SALT : at + _SALT + _CHECK]
    nonce, sealed = data[_HEADER - _NONCE : _HEADER], data[_HEADER:]
    if len(nonce) < _NONCE:
        raise NotOpened(f"{name}: damaged (its sealed block is cut off)")
    key, expected = _key(passphrase(), salt)
    if not secrets.compare_digest(check, expected):
        raise Locked(
            f"{name}: the passphrase in {os.environ[FILE]} is not the one that it was sealed with, "
            "or its first bytes were changed"
        )
    try:
        return ChaCha20Poly1305(key).decrypt(nonce, sealed, MAGIC + name.encode())
    except InvalidTag:
        raise NotOpened(f"{name}: damaged (changed since it was sealed)") from None


def passphrase() -> bytes:
    """Return the passphrase: the file's text without the end of its line.

    Raises Locked if the file cannot be read, or holds fewer than SHORTEST characters.
    """
    path = Path(os.environ[FILE])
    try:
        text = path.read_text("utf-8").rstrip("\r\n")
    except (OSError, UnicodeDecodeError) as error:
        raise Locked(f"{FILE}: {path}: cannot be read ({error}), expected a passphrase") from error
    if len(text) < SHORTEST:
        got = f"got {len(text)} characters, expected {SHORTEST} or more"
        raise Locked(f"{FILE}: {path}: {got}: `openssl rand -base64 32` makes a passphrase")
    return text.encode()


@lru_cache(maxsize=1)
def _own_salt() -> bytes:
    """Return the salt of all that this process seals: its key is derived once."""
    return secrets.token_bytes(_SALT)


@lru_cache(maxsize=64)
def _key(passphrase: bytes, salt: bytes) -> tuple[bytes, bytes]:
    """Return the key of a passphrase and a salt, and the check by which it is known."""
    memory = 256 * _COST * _BLOCK
    both = hashlib.scrypt(passphrase, salt=salt, n=_COST, r=_BLOCK, p=1, maxmem=memory, dklen=48)
    return both[:32], both[32:]
