"""Bit masks as bytes: least significant bit first, unused bits zero."""

from __future__ import annotations

from math import prod
from typing import Protocol

import numpy as np

from fedsub_core.wire.bundles import BoolArray


class Refuse(Protocol):
    """Makes the error for a part of a message: what it is, what came, what was expected."""

    def __call__(self, what: str, got: object, expected: object) -> Exception:
        """Return the error."""


def pack_bits(mask: BoolArray) -> bytes:
    """Return a mask of any shape as bytes, row-major."""
    return np.packbits(mask.reshape(-1), bitorder="little").tobytes()


def unpack_bits(data: bytes, shape: tuple[int, ...], what: str, refuse: Refuse) -> BoolArray:
    """Return a mask of `shape`, or refuse bytes that hold another number of bits."""
    length = prod(shape)
    if len(data) != -(-length // 8):
        raise refuse(what, f"{len(data)} bytes", f"{-(-length // 8)} bytes for {length} bits")
    mask = np.unpackbits(np.frombuffer(data, np.uint8), bitorder="little")
    if mask[length:].any():
        raise refuse(what, "bits beyond the last", f"{length} bits")
    return mask[:length].astype(np.bool_).reshape(shape)
