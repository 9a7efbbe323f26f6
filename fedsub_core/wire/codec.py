"""Bundles to bytes and back, after ``proto/fedsub/v2/exchange.proto``.

Decoding trusts nothing: versions, names, kinds, shapes, mask lengths and numbers are checked
against what the method declares before anything is handed on; a message that fails raises
MessageRefused.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from google.protobuf.message import DecodeError

from fedsub_core.wire.bundle_tensors import LastTensors, decode_tensors, encode_tensors
from fedsub_core.wire.bundles import Bundle, Declaration, Part
from fedsub_core.wire.encoding import Encoding
from fedsub_core.wire.envelope import Envelope
from fedsub_core.wire.frame import compress, is_frame, open_frame, open_whole
from fedsub_core.wire.lazy_message import LazyMessage, Tensor, Tensors
from fedsub_core.wire.references import Reference
from fedsub_core.wire.v2 import exchange_pb2 as pb

SCHEMA_VERSION = 2
EXACT = Encoding()


@dataclass(frozen=True)
class Address:
    """Whom a message is from or to, and its round."""

    client: str
    round: int


def encode_upload(
    bundle: Bundle,
    address: Address,
    sends: Declaration,
    encoding: Encoding = EXACT,
    reference: Reference | None = None,
) -> bytes:
    """Return the bytes of an upload: :func:`compose_upload`."""
    return compose_upload(bundle, address, sends, encoding, reference).to_bytes()


def compose_upload(
    bundle: Bundle,
    address: Address,
    sends: Declaration,
    encoding: Encoding = EXACT,
    reference: Reference | None = None,
) -> LazyMessage:
    """Return an upload; a device's `reference` becomes that of this round."""
    differences = encoding.delta and reference is not None
    begun = reference.round if differences and reference is not None else 0
    header = _header(bundle, address, encoding, differences, begun)
    tensors = encode_tensors(bundle, sends, encoding, reference, remember=True)
    if reference is not None:
        reference.round = address.round
    return LazyMessage(header, tensors, encoding.zstd)


def encode_download(
    bundle: Bundle,
    address: Address,
    receives: Declaration,
    encoding: Encoding = EXACT,
    reference: Reference | None = None,
    tensors: Tensors | None = None,
) -> bytes:
    """Return the bytes of a download: :func:`compose_download`."""
    return compose_download(bundle, address, receives, encoding, reference, tensors).to_bytes()


def compose_download(
    bundle: Bundle,
    address: Address,
    receives: Declaration,
    encoding: Encoding = EXACT,
    reference: Reference | None = None,
    tensors: Tensors | None = None,
) -> LazyMessage:
    """Return a download.

    Parameters
    ----------
    reference : what the server holds of this client; left as it is.
    tensors : from :func:`encode_tensors`, where many clients get the same bundle and none of them a
        difference.
    """
    differences = encoding.delta and reference is not None and reference.round > 0
    begun = reference.round if reference is not None else 0
    header = _header(bundle, address, encoding, differences, begun)
    if differences and reference is not None:
        tensors = encode_tensors(bundle, receives, encoding, reference)
    elif tensors is None:
        tensors = encode_tensors(bundle, receives, encoding)
    return LazyMessage(header, tensors, encoding.zstd)


def _header(
    bundle: Bundle, address: Address, encoding: Encoding, differences: bool, reference: int
) -> pb.Bundle:
    """Return a message but for its tensors; `reference` is the round of what they differ from."""
    return pb.Bundle(
        schema_version=SCHEMA_VERSION,
        client_id=address.client,
        round=address.round,
        examples=bundle.examples,
        version=bundle.version,
        numbers=encoding.numbers.upper(),
        differences=differences,
        reference=reference,
    )


def decode_upload(data: bytes | LazyMessage, envelope: Envelope) -> Bundle:
    """Return the upload in `data`.

    Raises MessageRefused if anything in it does not fit the envelope, or a tensor that is not
    optional is missing.
    """
    message, sent = _open(data, envelope)
    kept = None
    if message.differences:
        kept = _reference(message.reference, envelope) or Reference.empty(envelope.declared)
    tensors = decode_tensors(message, sent, kept, envelope)
    _check_complete(tensors, envelope)
    return Bundle(
        examples=_below(2**48, message.examples, "examples", envelope),
        version=_below(2**63, message.version, "version", envelope),
        tensors=tensors,
        reference=message.reference if message.differences else 0,
    )


def decode_download(
    data: bytes | LazyMessage, envelope: Envelope, last: LastTensors | None = None
) -> Bundle:
    """Return the download in `data`.

    `last` serves clients alike in what they may be sent, one after another.

    Differences from a reference that the device does not hold are left out, if the method can do
    without: its next upload, sent without a reference, makes both sides agree again.

    Raises MessageRefused if anything in it does not fit the envelope.
    """
    message, sent = _open(data, envelope)
    if message.differences and message.reference == 0:
        raise envelope.refuse("reference", "differences from none", "the round of an upload")
    if any(isinstance(tensor, pb.Tensor) and tensor.sent for tensor in sent):
        raise envelope.refuse("sent entries", "a choice of them", "all, in a download")
    held = 0 if envelope.reference is None else envelope.reference.round
    tensors: dict[str, Part] = {}
    if not message.differences or message.reference == held:
        if message.differences:
            tensors = decode_tensors(message, sent, envelope.reference, envelope)
        else:
            tensors = (last or LastTensors()).decode(message, sent, envelope)
        if tensors:
            _check_complete(tensors, envelope)
    elif not all(one.optional for one in envelope.declared.values()):
        # The server forgets its reference of a device that refuses, and sends all anew.
        raise envelope.refuse("reference", f"round {message.reference}", f"round {held}")
    return Bundle(
        examples=_below(2**48, message.examples, "examples", envelope),
        version=_below(2**63, message.version, "version", envelope),
        tensors=tensors,
        reference=message.reference,
    )


def salted(data: bytes, salt: bytes) -> bytes:
    """Return a message whose bytes nobody can foretell who does not know `salt`."""
    field = bytes(pb.Bundle(salt=salt).SerializeToString())
    return compress(open_whole(data) + field) if is_frame(data) else data + field


def _reference(round: int, envelope: Envelope) -> Reference | None:
    """Return what differences are from; None for zeros."""
    if round == 0:
        return None
    held = 0 if envelope.reference is None else envelope.reference.round
    if round != held:
        raise envelope.refuse("reference", f"round {round}", f"round {held}, or 0")
    return envelope.reference


def _check_complete(tensors: dict[str, Part], envelope: Envelope) -> None:
    missing = [n for n, d in envelope.declared.items() if not d.optional and n not in tensors]
    if missing:
        raise envelope.refuse("tensors", sorted(tensors), f"also {', '.join(missing)}")


def _below(bound: int, value: int, what: str, envelope: Envelope) -> int:
    """Return `value` if it is below `bound`, which arithmetic in int64 can bear."""
    if value >= bound:
        raise envelope.refuse(what, value, f"a number below 2**{bound.bit_length() - 1}")
    return value


def _open(data: bytes | LazyMessage, envelope: Envelope) -> tuple[pb.Bundle, Sequence[Tensor]]:
    """Return a message's header and tensors."""
    tensors: Sequence[Tensor]
    if isinstance(data, LazyMessage):
        message, tensors = data.header, data.tensors
        if (size := max(len(data), data.opened_size)) > envelope.most_bytes:
            raise envelope.refuse("size", f"{size} bytes", f"{envelope.most_bytes} bytes at most")
    else:
        message = _parsed(data, envelope)
        tensors = message.tensors
    if message.schema_version != SCHEMA_VERSION:
        raise envelope.refuse("schema version", message.schema_version, SCHEMA_VERSION)
    if message.client_id != envelope.client:
        raise envelope.refuse("client id", repr(message.client_id), repr(envelope.client))
    if message.round != envelope.round:
        raise envelope.refuse("round", message.round, envelope.round)
    return message, tensors


def _parsed(data: bytes, envelope: Envelope) -> pb.Bundle:
    message = pb.Bundle()
    opened = open_frame(data, envelope.most_bytes, envelope.refuse)
    try:
        message.ParseFromString(opened)
    except DecodeError as error:
        raise envelope.refuse(
            "message", f"{len(data)} bytes ({error})", "a message of schema fedsub.v2"
        ) from error
    return message
