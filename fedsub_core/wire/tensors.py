"""One tensor of a bundle to a message and back: masks, number formats, differences, top-k."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import ceil, prod

import numpy as np
from numpy.typing import NDArray

from fedsub_core.placement import EVERYWHERE, Placement, Shape, owned
from fedsub_core.wire.bundles import (
    Bits,
    BoolArray,
    Declaration,
    Declared,
    FloatArray,
    Floats,
    Kind,
    Part,
    Whole,
)
from fedsub_core.wire.encoding import Encoding
from fedsub_core.wire.numbers import (
    WHOLE,
    WIDTH,
    Refuse,
    pack,
    pack_bits,
    pack_differences,
    unpack,
    unpack_bits,
    unpack_differences,
)
from fedsub_core.wire.raw_tensor import RawTensor, mark_place
from fedsub_core.wire.v2 import exchange_pb2 as pb


def encode_tensor(
    name: str,
    part: Part,
    declared: Declared,
    encoding: Encoding,
    kept: FloatArray | None,
    remember: bool,
) -> pb.Tensor | RawTensor:
    """Return the tensor as the encoding wants it; as it is, where it changes nothing.

    Numbers too large for a format or a difference become infinite, and the receiver refuses them.

    Parameters
    ----------
    kept : whole tensor, what the receiver holds (delta) or is owed (error feedback); None: neither.
    remember : change `kept` to what the receiver will hold or be owed afterwards.
    """
    if not isinstance(part, Floats) or declared.exact:
        return RawTensor.of(name, part, declared)
    numbers = encoding.numbers
    alone = kept is None or not encoding.feeds_back
    if alone and numbers == "float32":
        return RawTensor.of(name, part, declared)
    message = pb.Tensor(name=name, shape=declared.shape)
    mark_place(message, part.at, declared)
    if kept is None or alone:
        message.values, message.scales = pack(_lines(part.values), numbers)
        return message
    held = part.at.take(kept)
    if encoding.delta:
        # Of a sub-model's row other inputs may have been sent before: it is sent whole.
        top_k = 1.0 if declared.kind is Kind.SLICED else encoding.top_k
        after = _encode_differences(message, part.values, held, encoding.numbers, top_k)
    else:
        wanted = part.values + held
        message.values, message.scales = pack(_lines(wanted), numbers)
        after = wanted - _unpacked(message.values, message.scales, wanted.shape, numbers)
        # One diverged round, which the receiver refuses, must not spoil all that follow.
        after = np.where(np.isfinite(after), after, np.float32(0))
    if remember:
        part.at.put(kept, after)
    return message


def _encode_differences(
    message: pb.Tensor, values: FloatArray, held: FloatArray, numbers: str, top_k: float
) -> FloatArray:
    """Fill `message`; return what the receiver will hold of these numbers."""
    sent: BoolArray = np.ones(len(values), np.bool_)
    if top_k < 1:
        known = _entries(held).any(axis=1)
        changed = np.where(known, np.linalg.norm(_entries(values - held), axis=1), 0)
        order = np.argsort(-changed, kind="stable")
        sent = np.logical_not(known)
        sent[order[: ceil(top_k * known.sum())]] = True
        message.sent = pack_bits(sent)
    after = held.copy()
    if numbers == "float32":
        message.values = pack_differences(values[sent], held[sent])
        after[sent] = values[sent]
    else:
        difference = values[sent] - held[sent]
        message.values, message.scales = pack(_lines(difference), numbers)
        after[sent] += _unpacked(message.values, message.scales, difference.shape, numbers)
    return after


def decode_tensor(
    message: pb.Tensor,
    declaration: Declaration,
    numbers: str,
    kept: FloatArray | None,
    before: Mapping[str, Part],
    refuse: Refuse,
    check_numbers: Callable[[str, FloatArray], None],
) -> Part:
    """Inverse of :func:`encode_tensor`; with `kept`, the numbers are differences from it.

    `before` are the bundle's tensors decoded so far, whose units a sliced one may follow. Nothing
    is remembered here: see :meth:`fedsub_core.wire.references.Reference.remember`.
    """
    name, declared = message.name, declaration[message.name]
    if tuple(message.shape) != declared.shape:
        raise refuse(f"shape of {name}", tuple(message.shape), declared.shape)
    for what, mask, belongs in (
        ("units", message.units, declared.kind in (Kind.ROWS, Kind.SLICED)),
        ("elements", message.elements, declared.kind is Kind.ELEMENTS),
    ):
        if mask and not belongs:
            raise refuse(f"{what} of {name}", "a mask", f"none: it is {declared.kind.value}")
    if not declared.floats:
        _check_length(f"scales of {name}", len(message.scales), 0, refuse)
        _check_length(f"sent entries of {name}", len(message.sent), 0, refuse)
        data = message.values
        if declared.kind is Kind.BITS:
            return Bits(unpack_bits(data, declared.shape, name, refuse))
        _check_length(f"values of {name}", len(data), 2 * prod(declared.shape), refuse)
        return Whole(np.frombuffer(data, WHOLE).astype(np.int16).reshape(declared.shape))
    numbers = "float32" if declared.exact else numbers
    at = _placement(message, declaration, before, refuse)
    held = None if kept is None or declared.exact else at.take(kept)
    shape = at.shape(declared.shape)
    sent = _sent(message, shape[0], None if declared.kind is Kind.SLICED else held, refuse)
    if sent is not None:
        shape = (int(sent.sum()), *shape[1:])
    data = message.values  # each look at a field of bytes copies them
    _check_lengths(message, len(data), shape, numbers, refuse)
    if held is None:
        values = _unpacked(data, message.scales, shape, numbers)
    else:
        values, of = held.copy(), slice(None) if sent is None else sent
        if numbers == "float32":
            values[of] = unpack_differences(data, held[of])
        else:
            values[of] += _unpacked(data, message.scales, shape, numbers)
    check_numbers(name, values)
    return Floats(values, at)


def _placement(
    message: pb.Tensor, declaration: Declaration, before: Mapping[str, Part], refuse: Refuse
) -> Placement:
    """Return where the masks of a message say that its numbers stand."""
    name, declared = message.name, declaration[message.name]
    if declared.kind is Kind.DENSE:
        return EVERYWHERE
    if declared.kind is Kind.ELEMENTS:
        what = f"elements of {name}"
        return Placement(elements=unpack_bits(message.elements, declared.shape, what, refuse))
    (rows,) = unpack_bits(message.units, declared.shape[:1], f"units of {name}", refuse).nonzero()
    if declared.kind is Kind.ROWS:
        return Placement(rows)
    return Placement(rows, followed_inputs(name, declaration, before, refuse))


def followed_inputs(
    name: str, declaration: Declaration, before: Mapping[str, Part], refuse: Refuse
) -> NDArray[np.int64] | None:
    """Return a sliced tensor's inputs, which follow a mask or another's units; None: all."""
    declared = declaration[name]
    if not declared.follows:
        return None
    followed = before.get(declared.follows)
    if isinstance(followed, Bits):
        return followed.values.nonzero()[0]
    if not isinstance(followed, Floats) or followed.at.rows is None:
        raise refuse(f"inputs of {name}", "none before it", f"the units of {declared.follows}")
    each = declared.shape[1] // declaration[declared.follows].shape[0]
    return owned(followed.at.rows, each)


def _entries(values: FloatArray) -> FloatArray:
    """View as ``[leading axis, all others]``: what top-k chooses among."""
    return values.reshape(len(values), prod(values.shape[1:]))


def _line_shape(shape: Shape) -> tuple[int, int]:
    """Return lines and numbers of a line: what shares a scale of int8.

    An entry of the leading axis each; a tensor of one axis, such as biases, is one line.
    """
    if len(shape) > 1:
        return shape[0], prod(shape[1:])
    return min(shape[0], 1), shape[0]


def _lines(values: FloatArray) -> FloatArray:
    return values.reshape(_line_shape(values.shape))


def _unpacked(values: bytes, scales: bytes, shape: Shape, numbers: str) -> FloatArray:
    return unpack(values, scales, _line_shape(shape), numbers).reshape(shape)


def _sent(
    message: pb.Tensor, entries: int, held: FloatArray | None, refuse: Refuse
) -> BoolArray | None:
    """Return which entries were sent; None: all of them."""
    if not message.sent:
        return None
    what = f"sent entries of {message.name}"
    if held is None:
        raise refuse(what, "a choice of them", "all: no differences, or a sub-model's")
    sent = unpack_bits(message.sent, (entries,), what, refuse)
    if not _entries(held)[~sent].any(axis=1).all():
        raise refuse(what, "entries left out that were never sent", "those of the reference")
    return sent


def _check_lengths(
    message: pb.Tensor, values: int, shape: Shape, numbers: str, refuse: Refuse
) -> None:
    lines, width = _line_shape(shape)
    what = f"of {message.name}, {numbers} {list(shape)}"
    _check_length(f"values {what}", values, lines * width * WIDTH[numbers], refuse)
    scales = 8 * lines if numbers == "int8" else 0
    _check_length(f"scales {what}", len(message.scales), scales, refuse)


def _check_length(what: str, got: int, expected: int, refuse: Refuse) -> None:
    if got != expected:
        raise refuse(what, f"{got} bytes", f"{expected} bytes")
