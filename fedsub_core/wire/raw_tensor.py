"""A tensor that its encoding leaves as it is: within a process it goes by reference."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedsub_core.placement import Placement, Shape
from fedsub_core.wire.bundles import Bits, Declared, FloatArray, Floats, Kind, Part, Whole
from fedsub_core.wire.numbers import FLOAT, WHOLE, Refuse, pack_bits
from fedsub_core.wire.v2 import exchange_pb2 as pb


@dataclass(frozen=True, eq=False)
class RawTensor:
    """A tensor of a message that is written only where it leaves the process.

    Parameters
    ----------
    name : as the method declares it.
    part : in the wire's types, not to be written to; see :meth:`of`.
    declared : what its sender declares of it.
    """

    name: str
    part: Part
    declared: Declared

    @classmethod
    def of(cls, name: str, part: Part, declared: Declared) -> RawTensor:
        """Return a part of a bundle as whoever reads the message would hold it.

        Raises ValueError if it stands where the declared tensor has no place. Raises TypeError if
        whole numbers are not of 16 bits.
        """
        if isinstance(part, Bits):
            return cls(name, Bits(_read_only(part.values, np.dtype(np.bool_))), declared)
        if isinstance(part, Whole):
            values = part.values.astype(WHOLE, casting="safe", copy=False)
            return cls(name, Whole(_read_only(values, WHOLE)), declared)
        at = part.at
        if declared.kind is Kind.SLICED and at.rows is None:  # as a mask of them says it
            at = Placement(np.arange(declared.shape[0]), at.columns)
        at.shape(declared.shape)
        return cls(name, Floats(_read_only(part.values, FLOAT), at), declared)

    def message(self) -> pb.Tensor:
        """Return the tensor, written, exact."""
        message = self._beside()
        message.values = bytes(self._values())
        return message

    def written(self) -> list[bytes | memoryview]:
        """Return the bytes of :meth:`message`, in parts: protobuf would copy its values thrice."""
        values, beside = self._values(), self._beside().SerializeToString()
        if not len(values):  # protobuf leaves out what is empty
            return [beside]
        return [beside, field_head(pb.Tensor.VALUES_FIELD_NUMBER, len(values)), values]

    def _beside(self) -> pb.Tensor:
        """Return the message without its values, whose field is the last."""
        message = pb.Tensor(name=self.name, shape=self.declared.shape)
        if isinstance(self.part, Floats):
            mark_place(message, self.part.at, self.declared)
        return message

    def _values(self) -> bytes | memoryview:
        if isinstance(self.part, Bits):
            return pack_bits(self.part.values)
        return self.part.values.reshape(-1).view(np.uint8).data

    @property
    def size(self) -> int:
        """Bytes of :meth:`message` among a message's tensors, by the arithmetic of protobuf."""
        part, declared = self.part, self.declared
        length = _mask_bytes(part.values.size) if isinstance(part, Bits) else part.values.nbytes
        values = field_bytes(length) if length else 0  # protobuf leaves out what is empty
        return field_bytes(_bytes_beside(self.name, declared.kind, declared.shape) + values)

    def read(
        self,
        declared: Declared,
        refuse: Refuse,
        check_numbers: Callable[[str, FloatArray], None],
    ) -> Part:
        """Return the part, checked as one that comes in bytes is."""
        name, part, sent = self.name, self.part, self.declared
        if sent.shape != declared.shape:
            raise refuse(f"shape of {name}", sent.shape, declared.shape)
        if sent != declared:
            raise refuse(f"declaration of {name}", sent, declared)
        shape = part.at.shape(declared.shape) if isinstance(part, Floats) else declared.shape
        if part.values.size != prod(shape):
            what = f"values of {name}, {declared.kind.value} {list(shape)}"
            raise refuse(what, f"{part.values.size} numbers", f"{prod(shape)} numbers")
        if isinstance(part, Bits):
            return Bits(part.values.reshape(shape))
        if isinstance(part, Whole):
            return Whole(part.values.reshape(shape))
        check_numbers(name, part.values)
        return Floats(part.values.reshape(shape), part.at)


def mark_place(message: pb.Tensor, at: Placement, declared: Declared) -> None:
    """Write the masks that say where a tensor's numbers stand."""
    if declared.kind in (Kind.ROWS, Kind.SLICED):
        message.units = pack_bits(Placement(rows=at.rows).held(declared.shape[:1]))
    elif at.elements is not None:
        message.elements = pack_bits(at.elements)


def field_bytes(length: int) -> int:
    """Return how many bytes a field of `length` bytes takes in a message, if it is not left out.

    All our fields have numbers below 16, and so keys of one byte.
    """
    return 1 + _varint(length) + length


@lru_cache
def _bytes_beside(name: str, kind: Kind, shape: Shape) -> int:
    """Return how many bytes a tensor's fields take in a message, but for its values."""
    mask = 0
    if kind in (Kind.ROWS, Kind.SLICED):
        mask = _mask_bytes(shape[0])
    elif kind is Kind.ELEMENTS:
        mask = _mask_bytes(prod(shape))
    lengths = len(name.encode()), sum(map(_varint, shape)), mask
    return sum(field_bytes(length) for length in lengths if length)


def field_head(number: int, length: int) -> bytes:
    """Return a field's key and length, which stand before its bytes in a message."""
    lengths = [length >> 7 * i & 127 for i in range(_varint(length))]
    return bytes([number << 3 | 2, *(part | 128 for part in lengths[:-1]), lengths[-1]])


def _varint(number: int) -> int:
    return max(1, -(-number.bit_length() // 7))


def _mask_bytes(bits: int) -> int:
    return -(-bits // 8)


def _read_only(values: NDArray[Any], dtype: np.dtype[Any]) -> NDArray[Any]:
    """Return a view that whoever gets it cannot write to; a copy only of other types or layouts."""
    view = np.ascontiguousarray(values, dtype).view()
    view.flags.writeable = False
    return view
