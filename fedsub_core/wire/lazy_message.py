"""A message that is serialised only where bytes are needed; in one process it goes by reference."""

from __future__ import annotations

import copyreg
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from fedsub_core.wire.frame import compress
from fedsub_core.wire.raw_tensor import RawTensor, field_bytes, field_head
from fedsub_core.wire.v2 import exchange_pb2 as pb

#: A tensor of a message: as its encoding makes it, or as it is where that changes nothing.
Tensor = pb.Tensor | RawTensor


class Tensors(tuple[Tensor, ...]):
    """The tensors of a message, which many may get."""

    @cached_property
    def written(self) -> bytes:
        """Their bytes, which stand in a message behind its header's."""
        found: list[bytes | memoryview] = []
        for one in self:
            parts = one.written() if isinstance(one, RawTensor) else [one.SerializeToString()]
            found += [field_head(pb.Bundle.TENSORS_FIELD_NUMBER, sum(map(len, parts))), *parts]
        return b"".join(found)

    @cached_property
    def size(self) -> int:
        """How many bytes that is."""
        return sum(
            one.size if isinstance(one, RawTensor) else field_bytes(one.ByteSize()) for one in self
        )


@dataclass(frozen=True, eq=False)
class LazyMessage:
    """A message as its sender made it.

    Parameters
    ----------
    header : all but the tensors.
    zstd : whether its bytes are one zstd frame.
    """

    header: pb.Bundle
    tensors: Tensors
    zstd: bool = False

    def to_bytes(self) -> bytes:
        """Return the message, written."""
        data = bytes(self.header.SerializeToString()) + self.tensors.written
        return compress(data) if self.zstd else data

    @property
    def opened_size(self) -> int:
        """How many bytes :meth:`to_bytes` makes, before they are compressed."""
        return self.header.ByteSize() + self.tensors.size

    def __len__(self) -> int:
        """Return how many bytes :meth:`to_bytes` makes; compressed, that is found by doing it."""
        return self._size

    @cached_property
    def _size(self) -> int:
        return len(self.to_bytes()) if self.zstd else self.opened_size


def _message(kind: str, data: bytes) -> pb.Bundle | pb.Tensor:
    found: pb.Bundle | pb.Tensor = getattr(pb, kind).FromString(data)
    return found


def _pickled(message: pb.Bundle | pb.Tensor) -> tuple[Callable[..., Any], tuple[str, bytes]]:
    return _message, (type(message).__name__, message.SerializeToString())


# Generated classes name a module that there is not.
for _kind in (pb.Bundle, pb.Tensor):
    copyreg.pickle(_kind, _pickled)  # type: ignore[arg-type]
