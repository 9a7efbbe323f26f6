"""Replies that no server may use, stumble over or wait for longer than it said: one a device."""

import struct
from collections.abc import Callable
from hashlib import sha256

from flwr.proto.error_pb2 import Error
from flwr.proto.message_pb2 import Message

from .connection import Refused
from .device import Device, Question
from .objects import (
    Thing,
    array,
    body_of,
    config_record,
    content,
    metric_record,
    named,
    payload,
    thing,
)

Manners = Callable[[Device, Question], str]
CHUNK = 5 * 2**20
#: Flower's code for an app that crashed: its message is sent again.
CRASHED, UNAVAILABLE = 8, 5


def said(data: bytes) -> Manners:
    """Send a payload of these bytes."""
    return lambda device, question: device.send(question, content({"payload": payload(data)}))


def altered(change: Callable[[bytes], bytes]) -> Manners:
    """Send the model that came down, whose bytes are changed."""

    def answer(device: Device, question: Question) -> str:
        data = body_of_payload(device.upload(question))
        return device.send(question, content({"payload": payload(change(data))}))

    return answer


def body_of_payload(record: Thing) -> bytes:
    """Return the bytes that a payload carries."""
    (chunk,) = (one for one in record.everything() if one.content.startswith(b"ArrayChunk"))
    return body_of(chunk.content)[1]


def records(device: Device, question: Question) -> str:
    """Have the records themselves stand where a message should."""
    return device.send_message(question, content({"payload": device.upload(question)}))


def unparsable(device: Device, question: Question) -> str:
    """Send a message whose body is none."""
    inside = content({"payload": device.upload(question)})
    return device.send_message(question, thing("Message", b"\xff" * 40, [inside]))


def answers_another(device: Device, question: Question) -> str:
    """Say inside the message that it answers another's."""
    inside = content({"payload": device.upload(question)})
    return device.send(question, inside, reply_to_message_id=sha256(b"another's").hexdigest())


def missing_child(device: Device, question: Question) -> str:
    """Name a record inside that the SuperLink is never told of."""
    whole = content({"payload": device.upload(question)})
    return device.send(question, Thing(whole.content))


def unpushed(kept: int) -> Manners:
    """Announce all objects of a good upload, and keep the last few to oneself."""

    def answer(device: Device, question: Question) -> str:
        reply = device.reply(question, content({"payload": device.upload(question)}))
        asked, parts = device.announce(question, reply), list(reply.everything())
        for one in parts[: len(parts) - kept]:
            device.push(question, one, asked.session_id)
        return f"{kept} of {len(asked.objects_to_push)} objects kept"

    return answer


def confirmed(device: Device, question: Question) -> str:
    """Confirm one's own reply as received before its objects are there, and push them then."""
    reply = device.reply(question, content({"payload": device.upload(question)}))
    asked = device.announce(question, reply)
    device.connection.confirm(question.metadata.run_id, reply.identity)
    stored = [device.push(question, one, asked.session_id) for one in reply.everything()]
    return f"{sum(stored)} objects stored after the confirmation"


def swapped(device: Device, question: Question) -> str:
    """Push other bytes than those announced."""
    reply = device.reply(question, content({"payload": device.upload(question)}))
    asked = device.announce(question, reply)
    data = b"ArrayChunk  3\x00abc"
    stored = [device.push(question, one, asked.session_id, data) for one in reply.everything()]
    return f"{sum(stored)} other objects stored"


def repeated_chunk(times: int) -> Manners:
    """Send an array that names one chunk many times: a few bytes that take gigabytes."""

    def answer(device: Device, question: Question) -> str:
        bomb = array(b"\x00" * CHUNK, repeat=times)
        return device.send(question, content({"payload": named("ArrayRecord", {"payload": bomb})}))

    return answer


def deep_json(device: Device, question: Question) -> str:
    """Send records whose names are lists in lists in lists."""
    return device.send(question, thing("RecordDict", b"[" * 100_000 + b"]" * 100_000))


def wide_tree(device: Device, question: Question) -> str:
    """Send many records nobody asked for."""
    many = {f"record {i}": config_record({"i": i}) for i in range(300)}
    return device.send(question, content(many))


def many_objects(device: Device, question: Question) -> str:
    """Announce more objects than a SuperLink could write down in a minute."""
    many = [thing("ArrayChunk", str(i).encode()) for i in range(30_000)]
    reply = device.reply(question, content({"payload": thing("ArrayRecord", b"{}", many)}))
    try:
        device.announce(question, reply)
    except Refused as error:
        return error.reason
    return "announced"


def zstd_bomb() -> bytes:
    """Return a zstd frame that says it holds 2^62 bytes: one block, of one byte repeated."""
    size = struct.pack("<Q", 2**62)
    block = struct.pack("<I", (128 * 1024) << 3 | 1 << 1 | 1)[:3] + b"\x00"
    return b"\x28\xb5\x2f\xfd\xe0" + size + block


def npz_bomb() -> bytes:
    """Return numpy's header of an array of 2^40 numbers, without them."""
    header = b"{'descr': '<f8', 'fortran_order': False, 'shape': (1099511627776,), }".ljust(117)
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header) + 1) + header + b"\n"


def error(code: int, reason: str, with_records: bool = False) -> Manners:
    """Send an error, where one likes with records beside it."""

    def answer(device: Device, question: Question) -> str:
        fault, told = Error(code=code, reason=reason), device.metadata(question)
        inside = [content({"payload": device.upload(question)})] if with_records else []
        reply = thing("Message", Message(metadata=told, error=fault).SerializeToString(), inside)
        return device.send_message(question, reply, content=None, error=Error(code=code))

    return answer


def unasked(device: Device, question: Question) -> str:
    """Send no upload, but metrics and reports that nobody asked for, thousands of them."""
    fine = {"macro_f1": 1.0, "weighted_f1": 1.0, "accuracy": 1.0, "loss": 0.0, "examples": 9.0}
    many = {f"{'name ' * 40}{i}": float(i) for i in range(2000)}
    forged = {"report.refused_replies": 0.0, "refused_replies": -1e9, "bytes_up_sent": 1e18}
    things = {"report": metric_record(many | forged), "metrics": metric_record(fine | many)}
    return device.send(question, content({**things, "payload": payload(b"\x08\x02")}))


def silence(device: Device, question: Question) -> str:
    """Say nothing."""
    return "said nothing"


#: Whatever bytes of it stand in a float32, it is NaN.
NAN = b"\xff" * 4
TRICKS: dict[str, Manners] = {
    "silent": silence,
    "unpushed": unpushed(kept=6),
    "one-unpushed": unpushed(kept=1),
    "confirmed": confirmed,
    "swapped": swapped,
    "records-alone": records,
    "unparsable": unparsable,
    "answers-another": answers_another,
    "missing-child": missing_child,
    "zstd-bomb": said(zstd_bomb()),
    "npz-bomb": said(npz_bomb()),
    "chunk-bomb": repeated_chunk(400),
    "deep-json": deep_json,
    "wide-tree": wide_tree,
    "many-objects": many_objects,
    "crashed": error(CRASHED, "m" * 5_000_000),
    "lost": error(UNAVAILABLE, "I am not there"),
    "huge-error": error(-(2**63), "n" * 5_000_000),
    "error-and-records": error(0, "", with_records=True),
    "garbage": said(b"\xff" * 5000),
    "no-numbers": altered(lambda data: data[:200] + NAN * 8 + data[232:]),
    "another-round": altered(lambda data: data + b"\x18\x63"),
    "another-client": altered(lambda data: data + b"\x12\x02p1"),
    "unasked": unasked,
}


def play(trick: Manners) -> Manners:
    """Return the manners of a device that fits, and then answers everything with a trick."""

    def answer(device: Device, question: Question) -> str:
        if question.metadata.message_type == "query":
            return device.send(question, device.introduction(question))
        return trick(device, question)

    return answer


REPLIES = {name: play(trick) for name, trick in TRICKS.items()}


def honest(device: Device, question: Question) -> str:
    """Answer as a device does that learns nothing; with a report that it makes up."""
    if question.metadata.message_type == "query":
        return device.send(question, device.introduction(question))
    fine = {"macro_f1": 0.5, "weighted_f1": 0.5, "accuracy": 0.5, "loss": 1.0, "examples": 9.0}
    if question.metadata.message_type == "evaluate":
        return device.send(question, content({"metrics": metric_record(fine)}))
    report = {"training_loss": 1.0, "report.refused_replies": 7.0, "refused_replies": 7.0}
    things = {"payload": device.upload(question), "report": metric_record(report)}
    return device.send(question, content(things))
