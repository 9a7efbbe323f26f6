"""Bundles as bytes: masks, number formats, differences. Plain; it leaves nothing out by top-k."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

# What `protoc --descriptor_set_out` makes of exchange.proto.
_FILES = descriptor_pb2.FileDescriptorSet.FromString(
    Path(__file__).with_name("exchange.desc").read_bytes()
)
_POOL: Any = descriptor_pool.DescriptorPool()
for _file in _FILES.file:
    _POOL.AddSerializedFile(_file.SerializeToString())
Bundle: Any = message_factory.GetMessageClass(_POOL.FindMessageTypeByName("fedsub.v2.Bundle"))

FORMATS = ("float32", "bfloat16", "int8")
Array = np.ndarray
#: Whole tensors by name, and under "" the round of the upload that left them.
Reference = dict[str, Array]


@dataclass
class Part:
    """A tensor of a bundle: `mask` over the leading axis (Rows) or None; bool values are Bits."""

    shape: tuple[int, ...]
    values: Array
    mask: Array | None = None
    exact: bool = False

    @property
    def place(self) -> Any:
        """Where the values stand in the whole tensor."""
        return slice(None) if self.mask is None else self.mask


def pack_bits(mask: Array) -> bytes:
    """Return a mask of any shape, least significant bits first."""
    return np.packbits(mask.reshape(-1), bitorder="little").tobytes()


def unpack_bits(data: bytes, shape: tuple[int, ...]) -> Array:
    """Inverse of :func:`pack_bits`."""
    bits = np.unpackbits(np.frombuffer(data, np.uint8), bitorder="little")
    return bits[: int(np.prod(shape))].astype(bool).reshape(shape)


def lines(values: Array) -> Array:
    """View as lines, each of which has a scale of its own."""
    return values.reshape(1, -1) if values.ndim == 1 else values.reshape(len(values), -1)


def pack(values: Array, numbers: str) -> tuple[bytes, bytes]:
    """Return numbers in a format, and their scales."""
    if numbers == "float32" or not values.size:
        return values.astype("<f4").tobytes(), b""
    if numbers == "bfloat16":
        bits = values.astype("<f4").view("<u4").astype(np.uint64)
        rounded = (bits + 0x7FFF + (bits >> 16 & 1)) >> 16
        return rounded.astype("<u2").tobytes(), b""
    rows = lines(values)
    low, high = rows.min(1, keepdims=True), rows.max(1, keepdims=True)
    scale = ((high - low) / np.float32(255)).astype(np.float32)
    steps = np.rint((rows - low) / np.where(scale > 0, scale, np.float32(1)))
    q = np.clip(steps, 0, 255).astype(np.uint8)
    return q.tobytes(), np.hstack([scale, low]).astype("<f4").tobytes()


def unpack(tensor: Any, shape: tuple[int, ...], numbers: str) -> Array:
    """Inverse of :func:`pack`."""
    if numbers == "float32":
        return np.frombuffer(tensor.values, "<f4").reshape(shape).copy()
    if numbers == "bfloat16":
        return (np.frombuffer(tensor.values, "<u2").astype("<u4") << 16).view("<f4").reshape(shape)
    q = lines(np.frombuffer(tensor.values, np.uint8).reshape(shape))
    scale, low = np.frombuffer(tensor.scales, "<f4").reshape(-1, 2).T[:, :, None]
    values: Array = (low + scale * q.astype(np.float32)).astype(np.float32)
    return values.reshape(shape)


def pack_changes(new: Array, old: Array) -> bytes:
    """Return the bits of float32 that differ, bytes of one place together."""
    changed = new.astype("<f4").reshape(-1).view("<u4") ^ old.reshape(-1).view("<u4")
    return bytes(changed.reshape(-1, 1).view(np.uint8).T.tobytes())


def unpack_changes(data: bytes, old: Array) -> Array:
    """Inverse of :func:`pack_changes`."""
    places = np.frombuffer(data, np.uint8).reshape(4, -1).T
    changed = np.ascontiguousarray(places).view("<u4").reshape(old.shape)
    bits: Array = changed ^ np.ascontiguousarray(old, "<f4").view("<u4")
    return bits.view("<f4")


def encode(
    header: dict[str, Any], parts: Mapping[str, Part], filters: list[str], reference: Reference
) -> bytes:
    """Return an upload; with the filter `delta`, `reference` becomes what the server will hold."""
    numbers = next((f for f in filters if f in FORMATS), "float32")
    message = Bundle(schema_version=2, numbers=FORMATS.index(numbers), **header)
    message.differences = "delta" in filters
    if message.differences:
        message.reference = int(reference.get("", [0])[0])
    for name, part in parts.items():
        tensor = message.tensors.add(name=name, shape=part.shape)
        if part.mask is not None:
            tensor.units = pack_bits(part.mask)
        if part.values.dtype == bool:
            tensor.values = pack_bits(part.values)
        elif part.exact or not message.differences:
            tensor.values, tensor.scales = pack(part.values, "float32" if part.exact else numbers)
        else:
            whole = reference.setdefault(name, np.zeros(part.shape, np.float32))
            old = whole[part.place]
            if numbers == "float32":
                tensor.values = pack_changes(part.values, old)
                whole[part.place] = part.values
            else:
                tensor.values, tensor.scales = pack(part.values - old, numbers)
                whole[part.place] = old + unpack(tensor, old.shape, numbers)
    if message.differences:
        reference[""] = np.array([message.round], np.int64)
    return bytes(message.SerializeToString())


def decode(
    data: bytes, client: str, round: int, rows: Callable[[str], bool], reference: Reference
) -> tuple[dict[str, Part], int, int]:
    """Return a download's tensors, its `version` and its `reference`.

    `rows` says whether a tensor is of kind Rows; all others that come down are Dense.
    """
    message = Bundle.FromString(data)
    found = (message.schema_version, message.client_id, message.round)
    if found != (2, client, round):
        raise ValueError(f"a message of {found}, expected schema 2, {client!r}, round {round}")
    if message.differences and message.reference != int(reference.get("", [0])[0]):
        if not all(rows(tensor.name) for tensor in message.tensors):
            raise ValueError(f"differences from round {message.reference}, which is not held")
        return {}, message.version, message.reference  # FedSub's rows are optional
    parts: dict[str, Part] = {}
    for tensor in message.tensors:
        mask, shape, numbers = None, tuple(tensor.shape), FORMATS[message.numbers]
        if rows(tensor.name):
            mask = unpack_bits(tensor.units, shape[:1])
            shape = (int(mask.sum()), *shape[1:])
        old = reference.get(tensor.name) if message.differences else None
        if old is None:
            values = unpack(tensor, shape, numbers)
        else:
            old = old[... if mask is None else mask]
            exact = numbers == "float32"
            values = unpack_changes(tensor.values, old) if exact else unpack(tensor, shape, numbers)
            values = values if exact else old + values
        if not (np.abs(values) <= 1e6).all():
            raise ValueError(f"{tensor.name}: numbers that are not finite, or huge")
        parts[tensor.name] = Part(tuple(tensor.shape), values, mask)
    return parts, message.version, message.reference
