"""Unit rows to messages and back: number formats, differences, top-k, error feedback."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from math import ceil
from typing import Protocol

import numpy as np

from fedsub_core.models.chain import Model
from fedsub_core.wire.bundles import BoolArray, FloatArray, UnitRows
from fedsub_core.wire.encoding import Encoding
from fedsub_core.wire.memory import Memory
from fedsub_core.wire.numbers import WIDTH, pack, pack_differences, unpack, unpack_differences
from fedsub_core.wire.v1 import exchange_pb2 as pb


class Refuse(Protocol):
    """Makes the error for a part of a message: what it is, what came, what was expected."""

    def __call__(self, what: str, got: object, expected: object) -> Exception:
        """Return the error."""


def pack_bits(bits: BoolArray) -> bytes:
    """Return a mask as bytes, least significant bit first."""
    return np.packbits(bits, bitorder="little").tobytes()


# Numbers too large for a format or a difference become infinite, and the receiver refuses them.
@np.errstate(over="ignore", invalid="ignore")
def encode_rows(
    layers: dict[str, UnitRows], encoding: Encoding, memory: Memory | None, remember: bool
) -> list[pb.LayerRows]:
    """Return the layers' rows as the encoding wants them.

    Parameters
    ----------
    memory : what the receiver holds (delta) or is owed (error feedback); None for neither.
    remember : change `memory` to what the receiver will hold or be owed afterwards.
    """
    messages = []
    for name, layer in layers.items():
        message = pb.LayerRows(layer=name, units=pack_bits(layer.units))
        kept = None
        if memory is not None and encoding.feeds_back:
            kept = memory.rows[name][layer.units]
        if kept is None:
            message.rows, message.scales = pack(layer.rows, encoding.numbers)
        elif encoding.delta:
            kept = _encode_differences(message, layer.rows, kept, encoding)
        else:
            wanted = layer.rows + kept
            message.rows, message.scales = pack(wanted, encoding.numbers)
            kept = wanted - unpack(message.rows, message.scales, wanted.shape, encoding.numbers)
            # One diverged round, which the receiver refuses, must not spoil all that follow.
            kept = np.where(np.isfinite(kept), kept, np.float32(0))
        if memory is not None and kept is not None and remember:
            memory.rows[name][layer.units] = kept
        messages.append(message)
    return messages


def _encode_differences(
    message: pb.LayerRows, rows: FloatArray, held: FloatArray, encoding: Encoding
) -> FloatArray:
    """Fill `message`; return what the receiver will hold of these rows."""
    sent: BoolArray = np.ones(len(rows), np.bool_)
    if encoding.top_k < 1:
        known = held.any(axis=1)
        changed = np.where(known, np.linalg.norm(rows - held, axis=1), 0)
        order = np.argsort(-changed, kind="stable")
        sent = np.logical_not(known)
        sent[order[: ceil(encoding.top_k * known.sum())]] = True
        message.sent = pack_bits(sent)
    after = held.copy()
    if encoding.numbers == "float32":
        message.rows = pack_differences(rows[sent], held[sent])
        after[sent] = rows[sent]
    else:
        difference = rows[sent] - held[sent]
        message.rows, message.scales = pack(difference, encoding.numbers)
        decoded = unpack(message.rows, message.scales, difference.shape, encoding.numbers)
        after[sent] += decoded
    return after


# What a hostile scale or difference makes infinite or NaN is refused below, without a warning.
@np.errstate(over="ignore", invalid="ignore")
def decode_rows(
    messages: Iterable[pb.LayerRows],
    model: Model,
    numbers: str,
    memory: Memory | None,
    refuse: Refuse,
    check_numbers: Callable[[str, FloatArray], None],
) -> dict[str, UnitRows]:
    """Inverse of :func:`encode_rows`; with a `memory`, rows are differences from it.

    Nothing is remembered here: see :func:`remember_rows`.
    """
    known = {layer.name: layer for layer in model.affine}
    taken: dict[str, UnitRows] = {}
    for message in messages:
        name = message.layer
        if name not in known or name in taken:
            raise refuse("layer", repr(name), f"one each of {', '.join(known)}")
        units = unpack_bits(message.units, known[name].units, f"units of layer {name}", refuse)
        held = None if memory is None else memory.rows[name][units]
        sent = _sent(message, int(units.sum()), held, refuse)
        shape = (int(sent.sum()), known[name].fan_in + 1)
        _check_lengths(message, shape, numbers, refuse)
        if held is None:
            rows = unpack(message.rows, message.scales, shape, numbers)
        else:
            rows = held.copy()
            if numbers == "float32":
                rows[sent] = unpack_differences(message.rows, held[sent])
            else:
                rows[sent] += unpack(message.rows, message.scales, shape, numbers)
        check_numbers(f"rows of layer {name}", rows)
        taken[name] = UnitRows(units, rows)
    return taken


def remember_rows(memory: Memory, layers: dict[str, UnitRows], round: int) -> None:
    """Make decoded rows the reference of the next differences."""
    memory.round = round
    for name, layer in layers.items():
        memory.rows[name][layer.units] = layer.rows


def unpack_bits(data: bytes, length: int, what: str, refuse: Refuse) -> BoolArray:
    """Return a mask of `length` bits, or refuse bytes that hold another number of them."""
    if len(data) != -(-length // 8):
        raise refuse(what, f"{len(data)} bytes", f"{-(-length // 8)} bytes for {length} bits")
    bits = np.unpackbits(np.frombuffer(data, np.uint8), bitorder="little")
    if bits[length:].any():
        raise refuse(what, "bits beyond the last", f"{length} bits")
    return bits[:length].astype(np.bool_)


def _sent(
    message: pb.LayerRows, selected: int, held: FloatArray | None, refuse: Refuse
) -> BoolArray:
    if not message.sent:
        return np.ones(selected, np.bool_)
    what = f"sent rows of layer {message.layer}"
    if held is None:
        raise refuse(what, "a choice of rows", "all rows, as they are no differences")
    sent = unpack_bits(message.sent, selected, what, refuse)
    if not held[~sent].any(axis=1).all():
        raise refuse(what, "rows left out that were never sent", "those of the reference")
    return sent


def _check_lengths(
    message: pb.LayerRows, shape: tuple[int, int], numbers: str, refuse: Refuse
) -> None:
    rows, width = shape
    for what, data, expected in (
        ("rows", message.rows, rows * width * WIDTH[numbers]),
        ("scales", message.scales, 8 * rows if numbers == "int8" else 0),
    ):
        if len(data) != expected:
            raise refuse(
                f"{what} of layer {message.layer}",
                f"{len(data)} bytes",
                f"{expected} bytes: {numbers} {list(shape)}",
            )
