"""Mutations of messages: of their bytes, of their fields, and of the zstd frames around them."""

from collections.abc import Callable, Sequence
from math import inf, nan
from random import Random
from struct import pack
from typing import Any

import pytest
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message

from fedsub_core.wire.frame import MAGIC, compress

Mutate = Callable[[Sequence[bytes], Message, Random], bytes]
TEXTS = ("", "anna", "bert", "linear1", "linear1.masks", "linear2.weight", "rows", "conv", "ä" * 99)
NUMBERS = (0, 1, 2, 3, 4, 6, 8, 127, 128, 2**31 - 1, 2**31, 2**32 - 1, 2**63, 2**64 - 1)
#: NaN, infinities, and numbers that are too large, tiny or negative, as they stand in `values`.
FLOATS = tuple(pack("<f", x) for x in (nan, inf, -inf, -1.0, -0.0, 1e-45, 3.4e38, 2e6, 0.5))
#: Huge varints, lengths and numbers of fields, and groups without an end.
RUBBISH = (
    b"\xff" * 9 + b"\x01",
    b"\xff" * 10,
    b"\x0a\xff\xff\xff\xff\x0f",
    b"\x4a\xff\xff\xff\xff\x07",
    b"\x0b" * 200,
    b"\xf8\xff\xff\xff\x0f\x00",
    b"\x4a\x00" * 300,
    b"\x4a\x02\x12\x00" * 300,
    MAGIC,
)


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


def flip_header(data: bytes, random: Random) -> bytes:
    return flip_bits(data[:12], random) + data[12:]  # of a zstd frame: its flags and sizes


def plant_float(data: bytes, random: Random) -> bytes:
    start = 4 * random.randrange(len(data) // 4 + 1)
    return data[:start] + random.choice(FLOATS) + data[start + 4 :]


def splice(data: bytes, other: bytes, random: Random) -> bytes:
    start, end = random.choice(((len(data), 0), (cut(data, random)[0], cut(other, random)[0])))
    return data[:start] + other[end:]  # two whole messages merge into one


BYTE_MUTATIONS: tuple[Callable[[bytes, Random], bytes], ...] = (
    flip_bits,
    delete,
    insert,
    duplicate,
    add_rubbish,
)


# Mutations of fields.


def random_value(field: FieldDescriptor, old: Any, random: Random) -> Any:
    if field.cpp_type == FieldDescriptor.CPPTYPE_STRING:
        if field.type == FieldDescriptor.TYPE_STRING:
            return random.choice(TEXTS)
        return random.choice((flip_bits, plant_float, delete, insert, duplicate))(old, random)
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
    choice = random.randrange(12)
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
    fields = message.DESCRIPTOR.fields
    inside = [f for f in fields if f.cpp_type == FieldDescriptor.CPPTYPE_MESSAGE]
    field = random.choice(inside if inside and random.random() < 0.7 else fields)
    value = getattr(message, field.name)
    if hasattr(value, "extend"):
        change_repeated(value, field, random)
    else:
        setattr(message, field.name, random_value(field, value, random))


def change_fields(data: bytes, message: Message, random: Random) -> bytes:
    message.ParseFromString(data)
    for _ in range(random.choice((1, 1, 1, 2, 3))):
        change_field(message, random)
    return message.SerializeToString()


def mutate(pool: Sequence[bytes], message: Message, random: Random) -> bytes:
    """Return one of `pool` with one to three mutations, some in a zstd frame, some of the frame.

    `message` is empty and of the pool's kind; it is left as a scratch pad.
    """
    data = random.choice(pool)
    if random.random() < 0.75:
        data = change_fields(data, message, random)
    elif random.random() < 0.2:
        data = splice(data, random.choice(pool), random)
    else:
        for _ in range(random.choice((1, 1, 2, 3))):
            data = random.choice(BYTE_MUTATIONS)(data, random)
    if random.random() < 0.2:
        data = compress(data)
        if random.random() < 0.5:
            data = random.choice((flip_header, *BYTE_MUTATIONS))(data, random)
    return data


@pytest.fixture(name="mutate", scope="session")
def mutate_fixture() -> Mutate:
    return mutate
