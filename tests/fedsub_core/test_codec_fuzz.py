"""Mutated messages are refused, or decode to something whole, quickly and in little memory.

Every mutant follows from its seed alone; a failure names it: ``check(mutant(seed))`` repeats it.
"""

from __future__ import annotations

import tracemalloc
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from random import Random
from time import process_time
from typing import Any

import numpy as np
import pytest
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import DecodeError, Message

from fedsub_core.errors import MessageRefused
from fedsub_core.messages import Download, UnitRows, Upload
from fedsub_core.models import mlp
from fedsub_core.wire.codec import (
    decode_download,
    decode_upload,
    encode_download,
    encode_upload,
)
from fedsub_core.wire.encoding import parse_encoding
from fedsub_core.wire.envelope import Envelope
from fedsub_core.wire.frame import MAGIC, compress, open_frame
from fedsub_core.wire.memory import Memory
from fedsub_core.wire.v1 import exchange_pb2 as pb

MODEL = mlp(3, 4, hidden=(10, 5))
ROUND, PROTOTYPE_SIZE = 7, 3
SECONDS, BYTES = 0.5, 2 << 20
ENCODINGS = [
    ",".join(filters)
    for numbers in ("float32", "bfloat16", "int8")
    for filters in ((numbers,), (numbers, "delta"), (numbers, "delta", "top-k:0.5"))
]
TEXTS = ("", "anna", "bert", "linear1", "linear2", "linear3.weight", "linear1.bias", "ä" * 99)
NUMBERS = (0, 1, 2, 3, 4, 6, 8, 127, 128, 2**31 - 1, 2**31, 2**32 - 1, 2**63, 2**64 - 1)
FLOATS = (float("nan"), float("inf"), -1.0, -0.0, 1e-45, 3.4e38, 0.5)
#: Huge varints, lengths and numbers of fields, and groups without an end.
RUBBISH = (
    b"\xff" * 9 + b"\x01",
    b"\xff" * 10,
    b"\x0a\xff\xff\xff\xff\x0f",
    b"\x2a\xff\xff\xff\xff\x07",
    b"\x0b" * 200,
    b"\xf8\xff\xff\xff\x0f\x00",
    b"\x2a\x00" * 300,
    b"\x32\x00" * 300,
    MAGIC,
)


@dataclass(frozen=True)
class Mutant:
    """A message that may be broken, and who receives it."""

    seed: int
    is_upload: bool
    data: bytes
    envelope: Envelope


def rows_for(rng: np.random.Generator) -> dict[str, UnitRows]:
    layers = {}
    for layer in MODEL.affine:
        units = rng.random(layer.units) < 0.6
        rows = rng.standard_normal((units.sum(), layer.fan_in + 1), np.float32)
        layers[layer.name] = UnitRows(units, rows)
    return layers


@cache
def held() -> Memory:
    """Return what a receiver remembers of the round before; one unit was never sent."""
    rng = np.random.default_rng(1)
    memory = Memory.empty(MODEL)
    memory.round = ROUND - 1
    for rows in memory.rows.values():
        rows[:-1] = rng.standard_normal(rows[:-1].shape)
    return memory


@cache
def valid_messages(upload: bool) -> list[bytes]:
    """Return valid messages of all encodings, with and without a reference."""
    rng = np.random.default_rng(2)
    messages = []
    for text in ENCODINGS:
        for memory in (held(), Memory.empty(MODEL)):
            encoding, layers = parse_encoding(text), rows_for(rng)
            dense = {"linear1.bias": rng.standard_normal(10, np.float32)}
            if not upload:
                download = Download(layers, dense, prototype_version=5)
                messages.append(encode_download(download, "anna", ROUND, encoding, memory))
                continue
            labels = np.array([0, 2, 3])
            sent = Upload(
                examples=12,
                layers=layers,
                masks={
                    n: x.units & (rng.random((3, len(x.units))) < 0.7) for n, x in layers.items()
                },
                labels=labels,
                scores=rng.random(3).astype(np.float32),
                prototypes={int(y): rng.standard_normal(3, np.float32) for y in labels},
                prototype_version=2**60,
                dense=dense,
            )
            messages.append(encode_upload(sent, "anna", ROUND, encoding, memory.copy()))
    return messages


# Mutations of bytes.


def cut(data: bytes, random: Random) -> tuple[int, int]:
    start = random.randrange(len(data) + 1)
    return start, min(len(data), start + random.choice((1, 2, 4, 8, 40)))


def flip_bits(data: bytes, random: Random) -> bytes:
    changed = bytearray(data)
    for _ in range(random.choice((1, 1, 2, 8)) if data else 0):
        changed[random.randrange(len(data))] ^= 1 << random.randrange(8)
    return bytes(changed)


def delete(data: bytes, random: Random) -> bytes:
    start, end = cut(data, random)
    return data[:start] + data[end:]


def insert(data: bytes, random: Random) -> bytes:
    start, _ = cut(data, random)
    return data[:start] + random.randbytes(random.choice((1, 1, 2, 4, 8))) + data[start:]


def duplicate(data: bytes, random: Random) -> bytes:
    start, end = cut(data, random)
    return data[:end] + data[start:end] * random.choice((1, 1, 2, 500)) + data[end:]


def add_rubbish(data: bytes, random: Random) -> bytes:
    start = random.choice((0, len(data), cut(data, random)[0]))
    return data[:start] + random.choice(RUBBISH) + data[start:]


def splice(data: bytes, random: Random) -> bytes:
    other = random.choice(valid_messages(random.random() < 0.8))
    start, end = random.choice(((len(data), 0), (cut(data, random)[0], cut(other, random)[0])))
    return data[:start] + other[end:]  # two whole messages merge into one


BYTE_MUTATIONS: tuple[Callable[[bytes, Random], bytes], ...] = (
    flip_bits,
    delete,
    insert,
    duplicate,
    add_rubbish,
    splice,
)


# Mutations of fields.


def random_value(field: FieldDescriptor, old: Any, random: Random) -> Any:
    if field.cpp_type == FieldDescriptor.CPPTYPE_STRING:
        if field.type == FieldDescriptor.TYPE_STRING:
            return random.choice(TEXTS)
        return random.choice((flip_bits, delete, insert, duplicate))(old or b"", random)
    if field.cpp_type == FieldDescriptor.CPPTYPE_FLOAT:
        return random.choice(FLOATS)
    if field.cpp_type == FieldDescriptor.CPPTYPE_BOOL:
        return not old
    if field.cpp_type == FieldDescriptor.CPPTYPE_ENUM:
        return random.choice((0, 1, 2, 3, -1, 2**31 - 1))
    wide = field.cpp_type == FieldDescriptor.CPPTYPE_UINT64
    return random.choice(NUMBERS) % (2**64 if wide else 2**32)


def change_repeated(values: Any, field: FieldDescriptor, random: Random) -> None:
    """Delete, repeat, move or change one element."""
    i = random.randrange(len(values)) if values else -1
    is_message = field.cpp_type == FieldDescriptor.CPPTYPE_MESSAGE
    choice = random.randrange(8)
    if i < 0 or choice == 0:
        values.extend([field.message_type._concrete_class()] if is_message else [3])
    elif choice == 1:
        del values[i]
    elif choice == 2:
        values.extend([values[i]] * random.choice((1, 1, 40)))
    elif choice == 3:
        values.extend([values[i]])
        del values[i]
    elif is_message:
        change_field(values[i], random)
    else:
        values[i] = random_value(field, values[i], random)


def change_field(message: Message, random: Random) -> None:
    """Set a random field, of the message or of one inside it, to a random value."""
    field = random.choice(message.DESCRIPTOR.fields)
    value = getattr(message, field.name)
    if hasattr(value, "extend"):
        change_repeated(value, field, random)
    else:
        setattr(message, field.name, random_value(field, value, random))


def change_fields(data: bytes, is_upload: bool, random: Random) -> bytes:
    message = pb.Upload() if is_upload else pb.Download()
    try:
        message.ParseFromString(data)
    except DecodeError:
        return data
    for _ in range(random.choice((1, 1, 1, 2, 3))):
        change_field(message, random)
    return message.SerializeToString()


def mutant(seed: int) -> Mutant:
    """Return a message with one to three mutations, perhaps as a zstd frame, perhaps broken too."""
    random = Random(seed)
    is_upload = random.random() < 0.7
    data = random.choice(valid_messages(is_upload))
    if random.random() < 0.5:
        data = change_fields(data, is_upload, random)
    else:
        for _ in range(random.choice((1, 1, 2, 3))):
            data = random.choice(BYTE_MUTATIONS)(data, random)
    if random.random() < 0.25:
        data = compress(data)
        if random.random() < 0.5:
            data = random.choice(BYTE_MUTATIONS)(data, random)
    memory = held().copy() if random.random() < 0.8 else None
    return Mutant(seed, is_upload, data, Envelope("anna", ROUND, MODEL, PROTOTYPE_SIZE, memory))


# What must hold.


def assert_layers_fit(layers: dict[str, UnitRows]) -> None:
    shapes = {x.name: (x.units, x.fan_in + 1) for x in MODEL.affine}
    for name, layer in layers.items():
        units, width = shapes[name]
        assert (layer.units.dtype, layer.units.shape) == (np.bool_, (units,))
        assert layer.rows.dtype == np.float32
        assert layer.rows.shape == (layer.units.sum(), width)
        assert np.isfinite(layer.rows).all()


def assert_fits(got: Upload | Download) -> None:
    """Check all that a learner or a strategy may take for granted."""
    assert_layers_fit(got.layers)
    for name, values in got.dense.items():
        assert values.shape == MODEL.parameter_shapes[name]
        assert np.isfinite(values).all()
    assert 0 <= got.prototype_version < 2**63
    if isinstance(got, Download):
        return
    assert 0 <= got.examples < 2**63
    assert got.reference in (0, ROUND - 1)
    assert all(0 <= label < MODEL.classes for label in got.labels.tolist())
    assert (np.diff(got.labels) > 0).all()
    assert got.scores.shape == got.labels.shape
    assert np.isfinite(got.scores).all() and (got.scores >= 0).all()
    assert set(got.prototypes) <= set(got.labels.tolist())
    for prototype in got.prototypes.values():
        assert prototype.shape == (PROTOTYPE_SIZE,)
        assert np.isfinite(prototype).all()
    assert got.masks.keys() == got.layers.keys()
    for name, masks in got.masks.items():
        assert (masks.dtype, masks.shape) == (np.bool_, (len(got.labels), len(masks.T)))
        assert not (masks & ~got.layers[name].units).any()


def content(memory: Memory | None) -> object:
    return memory and (memory.round, {name: rows.tobytes() for name, rows in memory.rows.items()})


def check(mutant: Mutant) -> str:
    """Return what was refused, or "" if the mutant was taken."""
    before, start, refused = content(mutant.envelope.memory), process_time(), ""
    try:
        if mutant.is_upload:
            assert_fits(decode_upload(mutant.data, mutant.envelope))
        else:
            assert_fits(decode_download(mutant.data, mutant.envelope))
    except MessageRefused as error:
        assert len(str(error)) < 1000
        refused = error.what
    assert process_time() - start < SECONDS
    assert content(mutant.envelope.memory) == before
    return refused


def run(seeds: range, measure: bool) -> Counter[str]:
    """Check mutants, and with `measure` what each decode allocates; count what was refused."""
    results: Counter[str] = Counter()
    for seed in seeds:
        broken = mutant(seed)
        if measure:
            tracemalloc.start()
        try:
            results[check(broken)] += 1
            assert not measure or tracemalloc.get_traced_memory()[1] < BYTES
        except Exception as error:
            raise AssertionError(f"mutant {seed}: {error!r}") from error
        finally:
            tracemalloc.stop()
    return results


#: Parts that a mutant can break; all must have been met, or the mutations reach too little.
PARTS = """size when decompressed|zstd frame|message|schema version|client id|round|number format
|reference|layer|units of layer linear1|rows of layer linear2|scales of layer linear3|classes
|sent rows of layer linear2|labels|scores|examples|prototype version|prototype of class 2|tensor
|masks of class 0|mask of class 3, layer linear1|shape of linear1.bias|linear1.bias"""


def assert_reached(results: Counter[str]) -> None:
    assert not {part.strip() for part in PARTS.split("|")} - results.keys()
    assert 0.05 < results[""] / results.total() < 0.6


def test_what_is_valid_is_taken() -> None:
    for is_upload in (True, False):
        for data in valid_messages(is_upload):
            envelope = Envelope("anna", ROUND, MODEL, PROTOTYPE_SIZE, held())
            for message in (data, compress(data)):
                assert check(Mutant(0, is_upload, message, envelope)) == ""


@pytest.mark.filterwarnings("error")
def test_mutants_are_refused_or_whole() -> None:
    assert_reached(run(range(4_000), measure=True))


@pytest.mark.slow
@pytest.mark.filterwarnings("error")
def test_many_mutants_are_refused_or_whole() -> None:
    assert_reached(run(range(10_000, 230_000), measure=False))


@pytest.mark.parametrize("empty", [b"\x2a\x00", b"\x32\x00", b"\x3a\x00", b"\x32\x02\x22\x00"])
def test_a_message_full_of_empty_parts_is_refused_in_little_memory(empty: bytes) -> None:
    resource = pytest.importorskip("resource", reason="this platform does not count memory")
    envelope = Envelope("anna", ROUND, MODEL, limit=1 << 20)
    head = pb.Upload(schema_version=1, client_id="anna", round=ROUND).SerializeToString()
    data = head + empty * ((envelope.limit - len(head)) // len(empty))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert check(Mutant(0, True, data, envelope)) in {"layer", "classes", "tensor"}
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 128 * 1024  # KiB


def test_a_refusal_quotes_little_of_a_hostile_message() -> None:
    envelope = Envelope("anna", ROUND, MODEL, limit=1 << 20)
    data = pb.Upload(schema_version=1, client_id="x" * (1 << 19)).SerializeToString()
    with pytest.raises(MessageRefused, match=r"client id: got 'x+\.\.\. \(524290 char") as refused:
        decode_upload(data, envelope)
    assert len(str(refused.value)) < 400
    with pytest.raises(MessageRefused, match="size: got"):
        decode_upload(data, replace(envelope, limit=1 << 18))
    assert open_frame(data, 1 << 20, envelope.refuse) == data
