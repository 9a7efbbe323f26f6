"""A bundle as it stood in a message, read without the project's own codec."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from flwr.app import Message
from numpy.typing import NDArray

from fedsub_core.wire import exchange
from fedsub_core.wire.frame import open_frame
from fedsub_core.wire.v2 import exchange_pb2 as pb

Floats = NDArray[np.float32]
Bools = NDArray[np.bool_]


@dataclass(frozen=True)
class SentBundle:
    """What one message carried; numbers are read as absolute float32.

    Parameters
    ----------
    message : the protobuf message, which tests may change.
    size : bytes of the payload.
    """

    message: pb.Bundle
    size: int

    @classmethod
    def of(cls, message: Message) -> SentBundle:
        """Open the payload of a Flower message."""
        payload = exchange.unpack(message.content)
        return cls(pb.Bundle.FromString(open_frame(payload, 2**30, _refuse)), len(payload))

    @property
    def names(self) -> list[str]:
        """Names of the tensors, in the order in which they stand."""
        return [tensor.name for tensor in self.message.tensors]

    def tensor(self, name: str) -> pb.Tensor:
        """Return the tensor called `name` as it stands."""
        (found,) = (tensor for tensor in self.message.tensors if tensor.name == name)
        return found

    def bits(self, name: str) -> Bools:
        """Return a mask ``[*shape]``."""
        tensor = self.tensor(name)
        return _bits(tensor.values, tuple(tensor.shape))

    def whole(self, name: str) -> Floats:
        """Return a whole tensor ``[*shape]``."""
        tensor = self.tensor(name)
        return np.frombuffer(tensor.values, "<f4").reshape(tuple(tensor.shape))

    def rows(self, name: str) -> dict[int, Floats]:
        """Return the entries of a tensor of which some travel, by their place in it."""
        tensor = self.tensor(name)
        units = np.flatnonzero(_bits(tensor.units, tuple(tensor.shape[:1])))
        values = np.frombuffer(tensor.values, "<f4").reshape(len(units), -1)
        return dict(zip(units.tolist(), values, strict=True))


def _bits(data: bytes, shape: tuple[int, ...]) -> Bools:
    bits = np.unpackbits(np.frombuffer(data, np.uint8), bitorder="little")
    return bits[: int(np.prod(shape))].reshape(shape).astype(np.bool_)


def _refuse(what: str, got: object, expected: object) -> Exception:
    return AssertionError(f"{what}: got {got}, expected {expected}")
