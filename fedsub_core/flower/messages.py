"""Messages: what Flower stamps them with, what they are made of, what goes wrong with them.

The same in 1.39 and in 1.42.
"""

from __future__ import annotations

from collections.abc import Iterable

from flwr.app import Message
from flwr.common.constant import ErrorCode
from flwr.serverapp import Grid
from flwr.supercore.inflatable.inflatable_object import get_all_nested_objects
from flwr.supercore.run import Run
from flwr.supercore.task_identity import TaskIdentity

__all__ = [
    "ErrorCode",
    "Run",
    "is_simulated",
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
    """Yield what Flower hashes and sends of a message: itself, its records, arrays and chunks."""
    return (part.deflate() for part in get_all_nested_objects(message).values())


def is_simulated(grid: Grid) -> bool:
    """Whether nodes are simulated by Flower's engine, which lists them before any answers.

    By the name of its Grid: where it stands is Flower's own affair.
    """
    return any(kind.__name__ == "InMemoryGrid" for kind in type(grid).__mro__)
