"""Bundles to bytes and back, after ``proto/fedsub/v2/exchange.proto``.

Decoding trusts nothing: versions, names, kinds, shapes, mask lengths and numbers are checked
against what the method declares before anything is handed on; a message that fails raises
MessageRefused.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from google.protobuf.message import DecodeError

from fedsub_core.wire.bundles import Bundle, Declaration, Part, Sliced
from fedsub_core.wire.encoding import FORMATS, Encoding
from fedsub_core.wire.envelope import Envelope
from fedsub_core.wire.frame import compress, is_frame, open_frame, open_whole
from fedsub_core.wire.references import Reference
from fedsub_core.wire.tensors import decode_tensor, encode_tensor, followed_inputs
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
    """Return the bytes of an upload; a device's `reference` becomes that of this round."""
    differences = encoding.delta and reference is not None
    header = pb.Bundle(
        schema_version=SCHEMA_VERSION,
        client_id=address.client,
        round=address.round,
        examples=bundle.examples,
        version=bundle.version,
        numbers=encoding.numbers.upper(),
        differences=differences,
        reference=reference.round if differences and reference is not None else 0,
    )
    tensors = encode_tensors(bundle, sends, encoding, reference, remember=True)
    if reference is not None:
        reference.round = address.round
    return _sealed(header, tensors, encoding)


def encode_download(
    bundle: Bundle,
    address: Address,
    receives: Declaration,
    encoding: Encoding = EXACT,
    reference: Reference | None = None,
    tensors: bytes | None = None,
) -> bytes:
    """Return the bytes of a download.

    Parameters
    ----------
    reference : what the server holds of this client; left as it is.
    tensors : from :func:`encode_tensors`, where many clients get the same bundle and none of them a
        difference.
    """
    differences = encoding.delta and reference is not None and reference.round > 0
    header = pb.Bundle(
        schema_version=SCHEMA_VERSION,
        client_id=address.client,
        round=address.round,
        examples=bundle.examples,
        version=bundle.version,
        numbers=encoding.numbers.upper(),
        differences=differences,
        reference=reference.round if reference is not None else 0,
    )
    if differences and reference is not None:
        tensors = encode_tensors(bundle, receives, encoding, reference)
    elif tensors is None:
        tensors = encode_tensors(bundle, receives, encoding)
    return _sealed(header, tensors, encoding)


# Numbers that overflow are the receiver's to refuse, without a warning here.
@np.errstate(over="ignore", invalid="ignore")
def encode_tensors(
    bundle: Bundle,
    declared: Declaration,
    encoding: Encoding,
    reference: Reference | None = None,
    remember: bool = False,
) -> bytes:
    """Return the tensors of a bundle as they stand in a message.

    `reference` is what the receiver holds or is owed, and is changed if it shall `remember`.

    Raises
    ------
    ValueError
        If the bundle is not as declared: a fault of the method.
    """
    kept = {} if reference is None else reference.tensors
    messages, before = [], dict[str, Part]()
    for name, part in bundle.tensors.items():
        one = declared.get(name)
        if one is None or not isinstance(part, one.kind):
            raise ValueError(f"tensor {name!r} is {type(part).__name__}, declared was {one}")
        if isinstance(part, Sliced):
            follows = followed_inputs(name, one, before, _undeclared)
            if (follows != part.inputs).any():
                raise ValueError(f"tensor {name!r}: its inputs do not follow {one.follows!r}")
        before[name] = part
        messages.append(encode_tensor(name, part, one, encoding, kept.get(name), remember))
    # Fields of a serialised message may be put together: this stands behind the header's.
    return bytes(pb.Bundle(tensors=messages).SerializeToString())


def decode_upload(data: bytes, envelope: Envelope) -> Bundle:
    """Return the upload in `data`.

    Raises
    ------
    MessageRefused
        If anything in it does not fit the envelope, or a tensor that is not optional is missing.
    """
    message = _open(data, envelope)
    kept = None
    if message.differences:
        kept = _reference(message.reference, envelope) or Reference.empty(envelope.declared)
    tensors = _tensors(message, kept, envelope)
    _check_complete(tensors, envelope)
    return Bundle(
        examples=_below(2**48, message.examples, "examples", envelope),
        version=_below(2**63, message.version, "version", envelope),
        tensors=tensors,
        reference=message.reference if message.differences else 0,
    )


class Newest:
    """The tensors that were decoded last: clients of one process are often sent the same."""

    def __init__(self) -> None:
        self._message, self._tensors = pb.Bundle(), dict[str, Part]()

    def decode(self, message: pb.Bundle, envelope: Envelope) -> dict[str, Part]:
        """Return the tensors of a message without differences; the same objects for the same."""
        last = self._message
        # How many there are first: a hostile message has millions, which is seen before a look.
        alike = last.numbers == message.numbers and len(last.tensors) == len(message.tensors)
        if not (alike and last.tensors == message.tensors):
            self._tensors = _tensors(message, None, envelope)
            self._message = message
        return self._tensors


def decode_download(data: bytes, envelope: Envelope, newest: Newest | None = None) -> Bundle:
    """Return the download in `data`.

    `newest` serves clients alike in what they may be sent, one after another.

    Differences from a reference that the device does not hold are left out, if the method can do
    without: its next upload, sent without a reference, makes both sides agree again.

    Raises
    ------
    MessageRefused
        If anything in it does not fit the envelope.
    """
    message = _open(data, envelope)
    if message.differences and message.reference == 0:
        raise envelope.refuse("reference", "differences from none", "the round of an upload")
    if any(tensor.sent for tensor in message.tensors):
        raise envelope.refuse("sent entries", "a choice of them", "all, in a download")
    held = 0 if envelope.reference is None else envelope.reference.round
    tensors: dict[str, Part] = {}
    if not message.differences or message.reference == held:
        if message.differences:
            tensors = _tensors(message, envelope.reference, envelope)
        else:
            tensors = (newest or Newest()).decode(message, envelope)
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
    """Return the same message, whose bytes nobody can foretell who does not know `salt`."""
    field = bytes(pb.Bundle(salt=salt).SerializeToString())
    return compress(open_whole(data) + field) if is_frame(data) else data + field


def _sealed(header: pb.Bundle, tensors: bytes, encoding: Encoding) -> bytes:
    data = bytes(header.SerializeToString()) + tensors
    return compress(data) if encoding.zstd else data


def _reference(round: int, envelope: Envelope) -> Reference | None:
    """Return what differences are from; None for zeros."""
    if round == 0:
        return None
    held = 0 if envelope.reference is None else envelope.reference.round
    if round != held:
        raise envelope.refuse("reference", f"round {round}", f"round {held}, or 0")
    return envelope.reference


# What a hostile scale or difference makes infinite or NaN is refused, without a warning.
@np.errstate(over="ignore", invalid="ignore")
def _tensors(message: pb.Bundle, kept: Reference | None, envelope: Envelope) -> dict[str, Part]:
    if not 0 <= message.numbers < len(FORMATS):
        raise envelope.refuse("number format", message.numbers, f"0 to {len(FORMATS) - 1}")
    numbers, declared = FORMATS[message.numbers], envelope.declared
    if len(message.tensors) > len(declared):  # before anything is made of each
        raise envelope.refuse("tensors", len(message.tensors), f"{len(declared)} at most")
    taken: dict[str, Part] = {}
    for tensor in message.tensors:
        name = tensor.name
        if name not in declared or name in taken:
            expected = f"one each of {', '.join(declared) or 'none'}"
            raise envelope.refuse("tensor", repr(name), expected)
        held = None if kept is None else kept.tensors.get(name)
        taken[name] = decode_tensor(
            tensor, declared[name], numbers, held, taken, envelope.refuse, envelope.check_numbers
        )
    return taken


def _check_complete(tensors: dict[str, Part], envelope: Envelope) -> None:
    missing = [n for n, d in envelope.declared.items() if not d.optional and n not in tensors]
    if missing:
        raise envelope.refuse("tensors", sorted(tensors), f"also {', '.join(missing)}")


def _below(bound: int, value: int, what: str, envelope: Envelope) -> int:
    """Return `value` if it is below `bound`, which arithmetic in int64 can bear."""
    if value >= bound:
        raise envelope.refuse(what, value, f"a number below 2**{bound.bit_length() - 1}")
    return value


def _open(data: bytes, envelope: Envelope) -> pb.Bundle:
    message = pb.Bundle()
    opened = open_frame(data, envelope.most_bytes, envelope.refuse)
    try:
        message.ParseFromString(opened)
    except DecodeError as error:
        raise envelope.refuse(
            "message", f"{len(data)} bytes ({error})", "a message of schema fedsub.v2"
        ) from error
    if message.schema_version != SCHEMA_VERSION:
        raise envelope.refuse("schema version", message.schema_version, SCHEMA_VERSION)
    if message.client_id != envelope.client:
        raise envelope.refuse("client id", repr(message.client_id), repr(envelope.client))
    if message.round != envelope.round:
        raise envelope.refuse("round", message.round, envelope.round)
    return message


def _undeclared(what: str, got: object, expected: object) -> Exception:
    return ValueError(f"{what}: got {got}, expected {expected}")
