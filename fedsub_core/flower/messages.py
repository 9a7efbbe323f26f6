"""Messages: what Flower stamps them with, what they and arrays are made of, what goes wrong.

The same in 1.39 and in 1.42.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from flwr.app import Array, Message
from flwr.common.constant import ErrorCode
from flwr.proto.node_pb2 import NodeInfo
from flwr.serverapp import Grid
from flwr.supercore.inflatable import inflatable_utils
from flwr.supercore.inflatable.inflatable_object import (
    get_all_nested_objects,
    get_object_body,
    get_object_children_ids_from_object_content,
)
from flwr.supercore.run import Run
from flwr.supercore.task_identity import TaskIdentity

__all__ = [
    "ErrorCode",
    "NodeInfo",
    "Run",
    "chunks_of",
    "is_simulated",
    "make_arrays_by",
    "play_alone",
    "stamp_answered",
    "stamp_id",
    "written_parts",
]


def play_alone() -> None:
    """Be who runs all of it: Flower refuses to make a message where nobody is."""
    TaskIdentity.run_id, TaskIdentity.task_id, TaskIdentity.node_id = 0, 0, 0


def stamp_id(message: Message, identity: str) -> None:
    """Give a message its id, as Flower does when it is handed over; there is no public way."""
    message.metadata.__dict__["_message_id"] = identity


def stamp_answered(reply: Message, identity: str) -> None:
    """Have a reply be that to the message of this id."""
    reply.metadata.__dict__["_reply_to_message_id"] = identity


def written_parts(message: Message) -> Iterable[bytes]:
    """Yield the parts of a message that Flower hashes and sends: itself, records, arrays."""
    return (part.deflate() for part in get_all_nested_objects(message).values())


def is_simulated(grid: Grid) -> bool:
    """Whether nodes are simulated by Flower's engine, which lists them before any answers.

    By the name of its Grid: where it stands is Flower's own affair.
    """
    return any(kind.__name__ == "InMemoryGrid" for kind in type(grid).__mro__)


def chunks_of(object_content: bytes) -> list[str]:
    """Return the names of an array's chunks in the order listed, each as often as it is."""
    names = get_object_children_ids_from_object_content(object_content)
    told = json.loads(get_object_body(object_content, Array))
    return [names[number] for number in told["arraychunk_ids"]]


def make_arrays_by(maker: Any) -> None:
    """Have `maker.inflate(object_content, children)` make arrays in place of Flower's Array."""
    inflatable_utils.inflatable_class_registry[Array.__qualname__] = maker
