"""Messages to bytes and back, after ``proto/fedsub/v1/exchange.proto``.

Decoding trusts nothing: versions, names, shapes, labels, mask lengths and numbers are checked
against the model before anything is handed on; a message that fails raises MessageRefused.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from google.protobuf.message import DecodeError

from fedsub_core.wire.bundles import BoolArray, Download, UnitRows, Upload
from fedsub_core.wire.encoding import Encoding
from fedsub_core.wire.envelope import Envelope
from fedsub_core.wire.frame import compress, open_frame
from fedsub_core.wire.memory import Memory
from fedsub_core.wire.numbers import FORMATS
from fedsub_core.wire.rows import decode_rows, encode_rows
from fedsub_core.wire.tensors import decode_tensors, encode_tensors, read_floats, write_floats
from fedsub_core.wire.v1 import exchange_pb2 as pb

SCHEMA_VERSION = 1
EXACT = Encoding()


def encode_upload(
    upload: Upload,
    client: str,
    round: int,
    encoding: Encoding = EXACT,
    memory: Memory | None = None,
) -> bytes:
    """Return the bytes of an upload; a device's `memory` becomes that of this round."""
    packed = {
        name: np.packbits(mask, axis=1, bitorder="little") for name, mask in upload.masks.items()
    }
    classes = [
        pb.ClassArtifact(
            label=label,
            score=float(upload.scores[i]),
            prototype=write_floats(upload.prototypes[label]) if label in upload.prototypes else b"",
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
        numbers=encoding.numbers.upper(),
        differences=encoding.delta and memory is not None,
        reference=memory.round if encoding.delta and memory is not None else 0,
        layers=encode_rows(upload.layers, encoding, memory, remember=True),
        classes=classes,
        tensors=encode_tensors(upload.dense),
        prototype_version=upload.prototype_version,
    )
    if memory is not None:
        memory.round = round
    data = bytes(message.SerializeToString())
    return compress(data) if encoding.zstd else data


def encode_download(
    download: Download,
    client: str,
    round: int,
    encoding: Encoding = EXACT,
    memory: Memory | None = None,
) -> bytes:
    """Return the bytes of a download; `memory` is what the server holds of this client's rows."""
    differences = encoding.delta and memory is not None and memory.round > 0
    message = pb.Download(
        schema_version=SCHEMA_VERSION,
        client_id=client,
        round=round,
        numbers=encoding.numbers.upper(),
        differences=differences,
        reference=memory.round if memory is not None else 0,
        layers=encode_rows(
            download.layers, encoding, memory if differences else None, remember=False
        ),
        tensors=encode_tensors(download.dense),
        prototype_version=download.prototype_version,
    )
    data = bytes(message.SerializeToString())
    return compress(data) if encoding.zstd else data


def decode_upload(data: bytes, envelope: Envelope) -> Upload:
    """Return the upload in `data`.

    Raises
    ------
    MessageRefused
        If anything in it does not fit the envelope.
    """
    message = pb.Upload()
    _open(message, data, envelope)
    base = None
    if message.differences:
        base = _base(message.reference, envelope) or Memory.empty(envelope.model)
    layers = _layers(message, base, envelope)
    most = envelope.model.classes
    if len(message.classes) > most:  # before anything is made of each
        raise envelope.refuse("classes", len(message.classes), f"{most} at most")
    labels = np.array([a.label for a in message.classes], np.int64)
    if (np.diff(labels) <= 0).any() or (labels >= most).any():
        raise envelope.refuse("labels", labels.tolist(), f"ascending, below {most}")
    scores = np.array([a.score for a in message.classes], np.float32)
    if not np.isfinite(scores).all() or (scores < 0).any():
        raise envelope.refuse("scores", scores.tolist(), "finite numbers of 0 or more")
    prototypes = {
        a.label: read_floats(
            a.prototype, (envelope.prototype_size,), f"prototype of class {a.label}", envelope
        )
        for a in message.classes
        if a.prototype
    }
    return Upload(
        examples=_below(2**48, message.examples, "examples", envelope),
        layers=layers,
        masks=_take_masks(message.classes, layers, envelope),
        labels=labels,
        scores=scores,
        prototypes=prototypes,
        prototype_version=_below(2**63, message.prototype_version, "prototype version", envelope),
        reference=message.reference if message.differences else 0,
        dense=decode_tensors(message.tensors, envelope),
    )


def decode_download(data: bytes, envelope: Envelope) -> Download:
    """Return the download in `data`.

    Differences from a reference that the device does not hold are left out: its next upload, sent
    without a reference, makes both sides agree again.

    Raises
    ------
    MessageRefused
        If anything in it does not fit the envelope.
    """
    message = pb.Download()
    _open(message, data, envelope)
    if message.differences and message.reference == 0:
        raise envelope.refuse("reference", "differences from none", "the round of an upload")
    held = 0 if envelope.memory is None else envelope.memory.round
    if any(layer.sent for layer in message.layers):
        raise envelope.refuse("sent rows", "a choice of rows", "all rows, in a download")
    lost = message.differences and message.reference != held
    base = envelope.memory if message.differences else None
    return Download(
        layers={} if lost else _layers(message, base, envelope),
        dense=decode_tensors(message.tensors, envelope),
        prototype_version=_below(2**63, message.prototype_version, "prototype version", envelope),
        reference=message.reference,
    )


def _base(reference: int, envelope: Envelope) -> Memory | None:
    """Return the memory that differences are from; None for zeros."""
    if reference == 0:
        return None
    held = 0 if envelope.memory is None else envelope.memory.round
    if reference != held:
        raise envelope.refuse("reference", f"round {reference}", f"round {held}, or 0")
    return envelope.memory


def _layers(
    message: pb.Upload | pb.Download, base: Memory | None, envelope: Envelope
) -> dict[str, UnitRows]:
    if not 0 <= message.numbers < len(FORMATS):
        raise envelope.refuse("number format", message.numbers, f"0 to {len(FORMATS) - 1}")
    numbers = FORMATS[message.numbers]
    model, refuse, check = envelope.model, envelope.refuse, envelope.check_numbers
    return decode_rows(message.layers, model, numbers, base, refuse, check)


def _below(bound: int, value: int, what: str, envelope: Envelope) -> int:
    """Return `value` if it is below `bound`, which arithmetic in int64 can bear."""
    if value >= bound:
        raise envelope.refuse(what, value, f"a number below 2**{bound.bit_length() - 1}")
    return value


def _open(message: pb.Upload | pb.Download, data: bytes, envelope: Envelope) -> None:
    opened = open_frame(data, envelope.most_bytes, envelope.refuse)
    try:
        message.ParseFromString(opened)
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


def _take_masks(
    classes: Sequence[pb.ClassArtifact], layers: dict[str, UnitRows], envelope: Envelope
) -> dict[str, BoolArray]:
    packed: dict[str, list[bytes]] = {name: [] for name in layers}
    for artifact in classes:
        named = {mask.layer: mask.units for mask in artifact.masks}
        if named.keys() != packed.keys() or len(named) != len(artifact.masks):
            raise envelope.refuse(
                f"masks of class {artifact.label}",
                [mask.layer for mask in artifact.masks],
                sorted(packed),
            )
        for name, units in named.items():
            packed[name].append(units)
    return {
        name: _class_masks(name, masks, layers[name].units, classes, envelope)
        for name, masks in packed.items()
    }


def _class_masks(
    name: str,
    packed: Sequence[bytes],
    union: BoolArray,
    classes: Sequence[pb.ClassArtifact],
    envelope: Envelope,
) -> BoolArray:
    """Return one layer's masks, bool [classes, units], all unpacked at once."""
    length, size = len(union), -(-len(union) // 8)
    for artifact, data in zip(classes, packed, strict=True):
        if len(data) != size:
            what = f"mask of class {artifact.label}, layer {name}"
            raise envelope.refuse(what, f"{len(data)} bytes", f"{size} bytes for {length} bits")
    table = np.frombuffer(b"".join(packed), np.uint8).reshape(len(packed), size)
    bits = np.unpackbits(table, axis=1, bitorder="little").astype(np.bool_)
    allowed = np.zeros(8 * size, np.bool_)
    allowed[:length] = union
    wrong = (bits & ~allowed).any(axis=1)
    if wrong.any():
        what = f"mask of class {classes[int(wrong.argmax())].label}, layer {name}"
        raise envelope.refuse(what, "units without rows", "a subset of the layer's rows")
    return bits[:, :length]
