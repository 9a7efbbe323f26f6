"""Numbers and masks as bytes: float32, bfloat16, int8 with a scale and offset per row, and bits."""

from __future__ import annotations

from math import prod
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from fedsub_core.wire.bundles import BoolArray, FloatArray

FLOAT = np.dtype("<f4")
#: Of tensors of kind ``Whole``, which are in none of the formats.
WHOLE = np.dtype("<i2")
WIDTH = {"float32": 4, "bfloat16": 2, "int8": 1}


def pack(values: FloatArray, numbers: str) -> tuple[bytes, bytes]:
    """Return `values` [rows, d] in a format, and its scales (int8 only).

    bfloat16 rounds to nearest even: relative error at most 2**-8; a number that would round to
    infinity becomes the largest finite one, so that a receiver takes it. int8 spreads 256 steps
    evenly over each row's range: error at most half a step, (max - min) / 510.
    """
    if numbers == "float32":
        return np.ascontiguousarray(values, FLOAT).tobytes(), b""
    if numbers == "bfloat16":
        bits = np.ascontiguousarray(values, FLOAT).view("<u4")
        rounded = bits + (np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1)))
        # An exponent of ones is infinity or NaN: neither may come or go by rounding.
        exponent = np.uint32(0x7F800000)
        fits = ((rounded & exponent) != exponent) & np.isfinite(values)
        whole = np.where(fits, rounded, bits)
        return (whole >> np.uint32(16)).astype("<u2").tobytes(), b""
    nothing = np.zeros((len(values), 1), np.float32)  # lines without numbers have scales, too
    low = values.min(axis=1, keepdims=True) if values.size else nothing
    high = values.max(axis=1, keepdims=True) if values.size else nothing
    scale = ((high - low) / np.float32(255)).astype(np.float32)
    steps = (values - low) / np.where(scale > 0, scale, np.float32(1))
    codes = np.clip(np.rint(steps), 0, 255).astype(np.uint8)
    return codes.tobytes(), np.hstack([scale, low]).astype(FLOAT).tobytes()


def unpack(data: bytes, scales: bytes, shape: tuple[int, int], numbers: str) -> FloatArray:
    """Inverse of :func:`pack`, up to rounding; lengths must fit `shape` [rows, d]."""
    if numbers == "float32":
        return np.frombuffer(data, FLOAT).reshape(shape)
    if numbers == "bfloat16":
        bits = np.frombuffer(data, "<u2").astype("<u4") << np.uint32(16)
        whole: FloatArray = bits.view(FLOAT).reshape(shape)
        return whole
    scale, low = np.frombuffer(scales, FLOAT).reshape(-1, 2).T[:, :, None]
    codes = np.frombuffer(data, np.uint8).reshape(shape)
    values: FloatArray = (low + scale * codes).astype(np.float32)
    return values


def pack_differences(values: FloatArray, reference: FloatArray) -> bytes:
    """Return float32 `values` as bits that differ from `reference`, bytes of one place together.

    Exact whatever the numbers. Signs, exponents and leading digits agree where little changed, so
    most bytes of the most significant place are zero and compress well.
    """
    bits = np.ascontiguousarray(values, FLOAT).view("<u4")
    changed: NDArray[np.uint32] = bits ^ np.ascontiguousarray(reference, FLOAT).view("<u4")
    return np.ascontiguousarray(changed.reshape(-1, 1).view(np.uint8).T).tobytes()


def unpack_differences(data: bytes, reference: FloatArray) -> FloatArray:
    """Inverse of :func:`pack_differences`, bit for bit."""
    places = np.frombuffer(data, np.uint8).reshape(4, -1)
    changed = np.ascontiguousarray(places.T).view("<u4").reshape(reference.shape)
    bits = np.ascontiguousarray(reference, FLOAT).view("<u4")
    values: FloatArray = (changed ^ bits).view(FLOAT)
    return values


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
