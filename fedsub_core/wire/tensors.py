"""Whole tensors and prototypes to bytes and back: always exact float32."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import prod

import numpy as np
from numpy.typing import NDArray

from fedsub_core.wire.bundles import FloatArray
from fedsub_core.wire.envelope import Envelope
from fedsub_core.wire.numbers import FLOAT
from fedsub_core.wire.v1 import exchange_pb2 as pb


def write_floats(values: FloatArray) -> bytes:
    """Return an array as little-endian float32, row-major."""
    return np.ascontiguousarray(values, FLOAT).tobytes()


def read_floats(data: bytes, shape: tuple[int, ...], what: str, envelope: Envelope) -> FloatArray:
    """Return a view of `data` as an array of `shape`, or refuse another size or NaN."""
    if len(data) != FLOAT.itemsize * prod(shape):
        raise envelope.refuse(what, f"{len(data)} bytes", f"float32 {list(shape)}")
    values: NDArray[np.float32] = np.frombuffer(data, FLOAT).reshape(shape)
    envelope.check_numbers(what, values)
    return values


def encode_tensors(tensors: Mapping[str, FloatArray]) -> list[pb.NamedTensor]:
    """Return named tensors as messages."""
    return [
        pb.NamedTensor(name=name, shape=values.shape, values=write_floats(values))
        for name, values in tensors.items()
    ]


def decode_tensors(tensors: Iterable[pb.NamedTensor], envelope: Envelope) -> dict[str, FloatArray]:
    """Inverse of :func:`encode_tensors`; refuses names and shapes that the model does not have."""
    shapes = envelope.model.parameter_shapes
    taken: dict[str, FloatArray] = {}
    for tensor in tensors:
        if tensor.name not in shapes or tensor.name in taken:
            raise envelope.refuse("tensor", repr(tensor.name), f"one each of {', '.join(shapes)}")
        shape = tuple(tensor.shape)
        if shape != shapes[tensor.name]:
            raise envelope.refuse(f"shape of {tensor.name}", shape, shapes[tensor.name])
        taken[tensor.name] = read_floats(tensor.values, shape, tensor.name, envelope)
    return taken
