"""Messages to bytes and back, after ``proto/fedsub/v1/exchange.proto``.

Decoding trusts nothing: versions, names, shapes, labels, mask lengths and numbers are checked
against the model before anything is handed on; a message that fails raises MessageRefused.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import prod

import numpy as np
from google.protobuf.message import DecodeError
from numpy.typing import NDArray

from fedsub_core.errors import MessageRefused
from fedsub_core.messages import BoolArray, Download, FloatArray, UnitRows, Upload
from fedsub_core.models import Model
from fedsub_core.wire.v1 import exchange_pb2 as pb

SCHEMA_VERSION = 1
FLOAT = np.dtype("<f4")


@dataclass(frozen=True)
class Envelope:
    """What a receiver knows before it opens a message, and checks the message against.

    Parameters
    ----------
    client, round : whom and which round the message must name.
    model : gives layers, units and shapes.
    prototype_size : length of a prototype; 0 where the method sends none.
    """

    client: str
    round: int
    model: Model
    prototype_size: int = 0

    def refuse(self, what: str, got: object, expected: object) -> MessageRefused:
        """Return the error that says what is wrong with the message."""
        return MessageRefused(self.client, self.round, what, str(got), str(expected))


def encode_upload(upload: Upload, client: str, round: int) -> bytes:
    """Return the bytes of an upload."""
    packed = {
        name: np.packbits(mask, axis=1, bitorder="little") for name, mask in upload.masks.items()
    }
    classes = [
        pb.ClassArtifact(
            label=label,
            score=float(upload.scores[i]),
            prototype=_bytes(upload.prototypes[label]) if label in upload.prototypes else b"",
            masks=[
                pb.UnitMask(layer=name, units=bits[i].tobytes()) for name, bits in packed.items()
            ],
        )
        for i, label in enumerate(upload.labels.tolist())
    ]
    message = pb.Upload(
        schema_version=SCHEMA_VERSION,
        client_id=client,
        round=round,
        examples=upload.examples,
        layers=_rows(upload.layers),
        classes=classes,
        tensors=_tensors(upload.dense),
        prototype_version=upload.prototype_version,
    )
    return bytes(message.SerializeToString())


def encode_download(download: Download, client: str, round: int) -> bytes:
    """Return the bytes of a download."""
    message = pb.Download(
        schema_version=SCHEMA_VERSION,
        client_id=client,
        round=round,
        layers=_rows(download.layers),
        tensors=_tensors(download.dense),
        prototype_version=download.prototype_version,
    )
    return bytes(message.SerializeToString())


def decode_upload(data: bytes, envelope: Envelope) -> Upload:
    """Return the upload in `data`, whose arrays are views of it.

    Raises
    ------
    MessageRefused
        If anything in it does not fit the envelope.
    """
    message = pb.Upload()
    _open(message, data, envelope)
    layers = _take_rows(message.layers, envelope)
    labels = np.array([a.label for a in message.classes], np.int64)
    if (np.diff(labels) <= 0).any() or (labels >= envelope.model.classes).any():
        raise envelope.refuse(
            "labels", labels.tolist(), f"ascending, below {envelope.model.classes}"
        )
    scores = np.array([a.score for a in message.classes], np.float32)
    if not np.isfinite(scores).all() or (scores < 0).any():
        raise envelope.refuse("scores", scores.tolist(), "finite numbers of 0 or more")
    prototypes = {
        a.label: _floats(
            a.prototype, (envelope.prototype_size,), f"prototype of class {a.label}", envelope
        )
        for a in message.classes
        if a.prototype
    }
    return Upload(
        examples=message.examples,
        layers=layers,
        masks=_take_masks(message.classes, layers, envelope),
        labels=labels,
        scores=scores,
        prototypes=prototypes,
        prototype_version=_version(message.prototype_version, envelope),
        dense=_take_tensors(message.tensors, envelope),
    )


def decode_download(data: bytes, envelope: Envelope) -> Download:
    """Return the download in `data`, whose arrays are views of it.

    Raises
    ------
    MessageRefused
        If anything in it does not fit the envelope.
    """
    message = pb.Download()
    _open(message, data, envelope)
    return Download(
        layers=_take_rows(message.layers, envelope),
        dense=_take_tensors(message.tensors, envelope),
        prototype_version=_version(message.prototype_version, envelope),
    )


def _bytes(values: FloatArray) -> bytes:
    return np.ascontiguousarray(values, FLOAT).tobytes()


def _version(value: int, envelope: Envelope) -> int:
    if value >= 2**63:
        raise envelope.refuse("prototype version", value, "a number below 2**63")
    return value


def _rows(layers: dict[str, UnitRows]) -> list[pb.LayerRows]:
    return [
        pb.LayerRows(
            layer=name,
            units=np.packbits(layer.units, bitorder="little").tobytes(),
            rows=_bytes(layer.rows),
        )
        for name, layer in layers.items()
    ]


def _tensors(tensors: dict[str, FloatArray]) -> list[pb.NamedTensor]:
    return [
        pb.NamedTensor(name=name, shape=values.shape, values=_bytes(values))
        for name, values in tensors.items()
    ]


def _open(message: pb.Upload | pb.Download, data: bytes, envelope: Envelope) -> None:
    try:
        message.ParseFromString(data)
    except DecodeError as error:
        raise envelope.refuse(
            "message", f"{len(data)} bytes ({error})", "a message of schema fedsub.v1"
        ) from error
    if message.schema_version != SCHEMA_VERSION:
        raise envelope.refuse("schema version", message.schema_version, SCHEMA_VERSION)
    if message.client_id != envelope.client:
        raise envelope.refuse("client id", repr(message.client_id), repr(envelope.client))
    if message.round != envelope.round:
        raise envelope.refuse("round", message.round, envelope.round)


def _take_rows(layers: Iterable[pb.LayerRows], envelope: Envelope) -> dict[str, UnitRows]:
    known = {layer.name: layer for layer in envelope.model.affine}
    taken: dict[str, UnitRows] = {}
    for message in layers:
        name = message.layer
        if name not in known or name in taken:
            raise envelope.refuse("layer", repr(name), f"one each of {', '.join(known)}")
        units = _bits(message.units, known[name].units, f"units of layer {name}", envelope)
        shape = (int(units.sum()), known[name].fan_in + 1)
        rows = _floats(message.rows, shape, f"rows of layer {name}", envelope)
        taken[name] = UnitRows(units, rows)
    return taken


def _take_masks(
    classes: Iterable[pb.ClassArtifact], layers: dict[str, UnitRows], envelope: Envelope
) -> dict[str, BoolArray]:
    masks: dict[str, list[BoolArray]] = {name: [] for name in layers}
    for artifact in classes:
        if sorted(m.layer for m in artifact.masks) != sorted(masks):
            raise envelope.refuse(
                f"masks of class {artifact.label}", [m.layer for m in artifact.masks], sorted(masks)
            )
        for mask in artifact.masks:
            union = layers[mask.layer].units
            what = f"mask of class {artifact.label}, layer {mask.layer}"
            bits = _bits(mask.units, len(union), what, envelope)
            if (bits & ~union).any():
                raise envelope.refuse(what, "units without rows", "a subset of the layer's rows")
            masks[mask.layer].append(bits)
    return {
        name: np.stack(rows) if rows else np.zeros((0, len(layers[name].units)), np.bool_)
        for name, rows in masks.items()
    }


def _take_tensors(tensors: Iterable[pb.NamedTensor], envelope: Envelope) -> dict[str, FloatArray]:
    shapes = envelope.model.parameter_shapes
    taken: dict[str, FloatArray] = {}
    for tensor in tensors:
        if tensor.name not in shapes or tensor.name in taken:
            raise envelope.refuse("tensor", repr(tensor.name), f"one each of {', '.join(shapes)}")
        shape = tuple(tensor.shape)
        if shape != shapes[tensor.name]:
            raise envelope.refuse(f"shape of {tensor.name}", shape, shapes[tensor.name])
        taken[tensor.name] = _floats(tensor.values, shape, tensor.name, envelope)
    return taken


def _bits(data: bytes, length: int, what: str, envelope: Envelope) -> BoolArray:
    if len(data) != -(-length // 8):
        raise envelope.refuse(
            what, f"{len(data)} bytes", f"{-(-length // 8)} bytes for {length} bits"
        )
    bits = np.unpackbits(np.frombuffer(data, np.uint8), bitorder="little")
    if bits[length:].any():
        raise envelope.refuse(what, "bits beyond the last", f"{length} bits")
    return bits[:length].astype(np.bool_)


def _floats(data: bytes, shape: tuple[int, ...], what: str, envelope: Envelope) -> FloatArray:
    if len(data) != FLOAT.itemsize * prod(shape):
        raise envelope.refuse(what, f"{len(data)} bytes", f"float32 {list(shape)}")
    values: NDArray[np.float32] = np.frombuffer(data, FLOAT).reshape(shape)
    if not np.isfinite(values).all():
        raise envelope.refuse(what, "NaN or infinite numbers", "finite numbers")
    return values
