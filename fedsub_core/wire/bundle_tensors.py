"""A bundle's tensors as they stand in a message, and back: what is declared, in which order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from fedsub_core.wire.bundles import Bundle, Declaration, Floats, Kind, Part, kinds
from fedsub_core.wire.encoding import FORMATS, Encoding
from fedsub_core.wire.envelope import Envelope
from fedsub_core.wire.lazy_message import Tensor, Tensors
from fedsub_core.wire.raw_tensor import RawTensor
from fedsub_core.wire.references import Reference
from fedsub_core.wire.tensors import decode_tensor, encode_tensor, followed_inputs
from fedsub_core.wire.v2 import exchange_pb2 as pb


# Numbers that overflow are the receiver's to refuse, without a warning here.
@np.errstate(over="ignore", invalid="ignore")
def encode_tensors(
    bundle: Bundle,
    declared: Declaration,
    encoding: Encoding,
    reference: Reference | None = None,
    remember: bool = False,
) -> Tensors:
    """Return the tensors of a bundle as they stand in a message.

    `reference` is what the receiver holds or is owed, and is changed if it shall `remember`.

    Raises ValueError if the bundle is not as declared: a fault of the method.
    """
    kept = {} if reference is None else reference.tensors
    encoded, before = list[Tensor](), dict[str, Part]()
    for name, part in bundle.tensors.items():
        one = declared.get(name)
        if one is None or one.kind not in kinds(part):
            raise ValueError(f"tensor {name!r} is {kinds(part)[0].value}, declared was {one}")
        if one.kind is Kind.SLICED and isinstance(part, Floats):
            follows = followed_inputs(name, declared, before, _undeclared)
            if part.at != replace(part.at, columns=follows):
                raise ValueError(f"tensor {name!r}: its inputs do not follow {one.follows!r}")
        before[name] = part
        encoded.append(encode_tensor(name, part, one, encoding, kept.get(name), remember))
    return Tensors(encoded)


# What a hostile scale or difference makes infinite or NaN is refused, without a warning.
@np.errstate(over="ignore", invalid="ignore")
def decode_tensors(
    header: pb.Bundle, tensors: Sequence[Tensor], kept: Reference | None, envelope: Envelope
) -> dict[str, Part]:
    """Return the tensors of a message, by name; with `kept` they are differences from it.

    Raises MessageRefused if one is not as the envelope declares it.
    """
    if not 0 <= header.numbers < len(FORMATS):
        raise envelope.refuse("number format", header.numbers, f"0 to {len(FORMATS) - 1}")
    numbers, declared = FORMATS[header.numbers], envelope.declared
    if len(tensors) > len(declared):  # before anything is made of each
        raise envelope.refuse("tensors", len(tensors), f"{len(declared)} at most")
    taken: dict[str, Part] = {}
    for tensor in tensors:
        name = tensor.name
        if name not in declared or name in taken:
            expected = f"one each of {', '.join(declared) or 'none'}"
            raise envelope.refuse("tensor", repr(name), expected)
        if isinstance(tensor, RawTensor):
            taken[name] = tensor.read(declared[name], envelope.refuse, envelope.check_numbers)
            continue
        held = None if kept is None else kept.tensors.get(name)
        taken[name] = decode_tensor(
            tensor, declared, numbers, held, taken, envelope.refuse, envelope.check_numbers
        )
    return taken


class LastTensors:
    """The tensors that were decoded last: clients of one process are often sent the same."""

    def __init__(self) -> None:
        self._sent: Sequence[Tensor] = ()
        self._numbers, self._tensors = 0, dict[str, Part]()

    def decode(
        self, header: pb.Bundle, tensors: Sequence[Tensor], envelope: Envelope
    ) -> dict[str, Part]:
        """Return the tensors of a message without differences; the same objects for the same."""
        # How many there are first: a hostile message has millions, which is seen before a look.
        alike = self._numbers == header.numbers and len(self._sent) == len(tensors)
        if not (alike and self._sent == tensors):
            self._tensors = decode_tensors(header, tensors, None, envelope)
            self._sent, self._numbers = tensors, header.numbers
        return self._tensors


def _undeclared(what: str, got: object, expected: object) -> Exception:
    return ValueError(f"{what}: got {got}, expected {expected}")
