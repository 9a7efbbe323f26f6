"""Flower's objects as bytes: a head of kind, children, length; a zero; a body. Ids are hashes."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from typing import Any

from flwr.proto import recorddict_pb2 as pb
from flwr.proto.message_pb2 import ObjectTree

STYPE = "fedsub.v2"


@dataclass(frozen=True)
class Thing:
    """An object and what it is made of; nothing sees to it that the two belong together."""

    content: bytes
    children: tuple[Thing, ...] = ()

    @cached_property
    def identity(self) -> str:
        """The hash of the content."""
        return sha256(self.content).hexdigest()

    def tree(self) -> ObjectTree:
        """Return it as the SuperLink is told of it."""
        return ObjectTree(object_id=self.identity, children=[c.tree() for c in self.children])

    def everything(self) -> Iterator[Thing]:
        """Yield its parts, then itself."""
        for child in self.children:
            yield from child.everything()
        yield self


def thing(kind: str, body: bytes, children: Sequence[Thing] = ()) -> Thing:
    """Return an object of a kind."""
    unique = list({child.identity: child for child in children}.values())
    head = f"{kind} {','.join(c.identity for c in unique)} {len(body)}".encode()
    return Thing(head + b"\x00" + body, tuple(unique))


def config_record(values: Mapping[str, Any]) -> Thing:
    """Return a record of plain values."""
    record = pb.ConfigRecord()
    for name, value in values.items():
        record.items.add(key=name, value=_config_value(value))
    return thing("ConfigRecord", record.SerializeToString())


def _config_value(value: Any) -> pb.ConfigRecordValue:
    made = pb.ConfigRecordValue()
    if isinstance(value, list):
        kind = type(value[0]) if value else int
        field = {int: "sint", float: "double", str: "string", bytes: "bytes", bool: "bool"}[kind]
        getattr(made, f"{field}_list").vals.extend(value)
    else:
        kinds = {int: "sint64", float: "double", str: "string", bytes: "bytes", bool: "bool"}
        setattr(made, kinds[type(value)], value)
    return made


def metric_record(values: Mapping[str, float]) -> Thing:
    """Return a record of numbers."""
    record = pb.MetricRecord()
    for name, value in values.items():
        record.items.add(key=name, value=pb.MetricRecordValue(double=value))
    return thing("MetricRecord", record.SerializeToString())


def array(data: bytes, repeat: int = 1, **changes: Any) -> Thing:
    """Return an array of `data`, `repeat` times over; `changes` to what it says of itself."""
    told = {"dtype": "uint8", "shape": [len(data)], "stype": STYPE, "arraychunk_ids": [0] * repeat}
    return thing("Array", json.dumps(told | changes).encode(), [thing("ArrayChunk", data)])


def named(kind: str, things: Mapping[str, Thing]) -> Thing:
    """Return an object that names others: a RecordDict's records, an ArrayRecord's arrays."""
    body = json.dumps({name: one.identity for name, one in things.items()})
    return thing(kind, body.encode(), list(things.values()))


def content(things: Mapping[str, Thing]) -> Thing:
    """Return a message's records."""
    return named("RecordDict", things)


def payload(data: bytes) -> Thing:
    """Return the record that carries a payload."""
    return named("ArrayRecord", {"payload": array(data)})


def body_of(content: bytes) -> tuple[str, bytes]:
    """Return an object's kind and body."""
    head, body = content.split(b"\x00", 1)
    return head.split(b" ")[0].decode(), body


def read_config(body: bytes) -> dict[str, Any]:
    """Return the values of a record of plain values."""
    items = pb.ConfigRecord.FromString(body).items
    found = {}
    for item in items:
        kind = item.value.WhichOneof("value")
        if kind is not None:
            value = getattr(item.value, kind)
            found[item.key] = list(value.vals) if kind.endswith("_list") else value
    return found
