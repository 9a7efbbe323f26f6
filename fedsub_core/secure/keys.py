"""Keys of one sum: pairs agree on secrets, seal messages to each other, and expand seeds to masks.

X25519 (RFC 7748), HKDF with SHA-256 (RFC 5869), ChaCha20 and ChaCha20-Poly1305 (RFC 8439), all of
``cryptography``, which Flower needs, too.
"""

from __future__ import annotations

import hashlib

import numpy as np
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305
from cryptography.hazmat.primitives.ciphers.algorithms import ChaCha20
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from numpy.typing import NDArray

#: Numbers modulo 2**32, ``[n]``.
Words = NDArray[np.uint32]
KEY_BYTES, TAG_BYTES = 32, 16
#: Each key seals one message, so that its number may always be the same.
_NONCE = bytes(12)


def private_key(private: bytes) -> X25519PrivateKey:
    """Return a private key of 32 bytes, ready to agree with many; to make it takes a while."""
    return X25519PrivateKey.from_private_bytes(private)


def public_of(private: bytes) -> bytes:
    """Return the public key of a private one, 32 bytes each."""
    return private_key(private).public_key().public_bytes_raw()


def agreed(private: X25519PrivateKey, public: bytes, purpose: bytes) -> bytes:
    """Return the 32 bytes that the owners of two key pairs alone know, for one purpose.

    Raises ValueError if the other's key is none that anybody's secret leads to.
    """
    shared = private.exchange(X25519PublicKey.from_public_bytes(public))
    return HKDF(SHA256(), KEY_BYTES, None, purpose).derive(shared)


def commitment(seed: bytes) -> bytes:
    """Return a commitment to a seed: it shows the seed later, and nothing of it before."""
    return hashlib.sha256(b"fedsub self mask" + seed).digest()


def seal(key: bytes, message: bytes, about: bytes) -> bytes:
    """Return a message that the key's holders alone can read, and nobody else can change."""
    return ChaCha20Poly1305(key).encrypt(_NONCE, message, about)


def unseal(key: bytes, sealed: bytes, about: bytes) -> bytes:
    """Inverse of :func:`seal`.

    Raises ValueError if it was sealed with another key or about something else, or was changed.
    """
    try:
        return ChaCha20Poly1305(key).decrypt(_NONCE, sealed, about)
    except InvalidTag:
        raise ValueError("a message that its sender did not seal") from None


def hash_of(vector: Words) -> str:
    """Return SHA-256 of a vector's words, little-endian, in hexadecimal."""
    return hashlib.sha256(vector.astype("<u4", copy=False).tobytes()).hexdigest()


def expanded(seed: bytes, length: int) -> Words:
    """Return the mask ``[length]`` of a seed: ChaCha20's stream as words, little-endian."""
    stream = Cipher(ChaCha20(seed, bytes(16)), mode=None).encryptor()
    return np.frombuffer(stream.update(bytes(4 * length)), "<u4").astype(np.uint32, copy=False)
