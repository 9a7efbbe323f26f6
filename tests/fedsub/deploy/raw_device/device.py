"""A raw device: it is asked, reads what it is asked, and answers as its `Manners` say."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from flwr.proto import fleet_pb2 as fleet
from flwr.proto.message_pb2 import Message, Metadata, PushObjectRequest
from flwr.proto.recorddict_pb2 import RecordDict

from .connection import Connection, Refused
from .objects import Thing, body_of, config_record, content, payload, read_config, thing

#: About as a SuperNode: more often, many devices keep the SuperLink's database busy.
POLL_SECONDS = 4.0
#: After a question: one that has its message sent again and again loses no time.
AGAIN_SECONDS = 1.0
FEATURES, CLASSES = 4, ["sit", "walk", "run"]


def pause(idle: float) -> float:
    """Return the seconds before a look, `idle` s after a question was answered."""
    return POLL_SECONDS


Note = Callable[[dict[str, Any]], None]


@dataclass
class Question:
    """A message to a device: what the server says around it, and its records."""

    metadata: Metadata
    records: dict[str, dict[str, Any]] = field(default_factory=dict)
    #: The bodies of its records of plain values, and of its payload.
    bodies: dict[str, bytes] = field(default_factory=dict)
    data: bytes = b""

    @property
    def round(self) -> int:
        """Its round; 0 for the handshake."""
        return int(self.metadata.group_id)


class Device:
    """One node, which does one thing after another in a thread of its own.

    Parameters
    ----------
    name : the id under which it introduces itself if it does so honestly.
    manners : what it answers with; returns how it came about.
    note : is told of everything that was sent.
    """

    def __init__(
        self,
        name: str,
        connection: Connection,
        manners: Callable[[Device, Question], str],
        note: Note,
    ) -> None:
        self.name, self.connection, self.manners, self.note = name, connection, manners, note
        self._stop = threading.Event()

    def work(self, late: float) -> None:
        """Answer until it is told to stop; begin `late` seconds after others."""
        question, served = None, time.monotonic()
        self._stop.wait(late)
        while not self._stop.wait(
            pause(time.monotonic() - served) if question is None else AGAIN_SECONDS
        ):
            try:
                question = self._next()
                if question is not None:
                    self._answer(question)
                    served = time.monotonic()
            except Refused as error:
                self.note({"device": self.name, "broken": error.reason})

    def stop(self) -> None:
        """End :meth:`work`."""
        self._stop.set()

    def _answer(self, question: Question) -> None:
        kind = question.metadata.message_type
        how = self.manners(self, question)
        self.note({"device": self.name, "kind": kind, "round": question.round, "how": how})

    def _next(self) -> Question | None:
        if (came := self.connection.pull()) is None:
            return None
        message, tree = came
        question, todo = Question(message.metadata), [tree]
        names: dict[str, str] = {}
        while todo:
            one = todo.pop()
            todo.extend(one.children)
            while (
                body := self.connection.pull_object(question.metadata.run_id, one.object_id)
            ) is None:
                time.sleep(0.1)
            kind, body = body_of(body)
            if kind == "RecordDict":
                names = {identity: name for name, identity in json.loads(body).items()}
            elif kind == "ConfigRecord":
                question.records[names[one.object_id]] = read_config(body)
                question.bodies[names[one.object_id]] = body
            elif kind == "ArrayChunk":
                question.data = body
        self.connection.confirm(question.metadata.run_id, tree.object_id)
        return question

    # What it can say.

    def reply(self, question: Question, said: Thing, **changes: Any) -> Thing:
        """Return a message that answers a question with records; `changes` to its metadata."""
        told = self.metadata(question)
        for key, value in changes.items():
            setattr(told, key, value)
        return thing("Message", Message(metadata=told).SerializeToString(), [said])

    def metadata(self, question: Question) -> Metadata:
        """Return what a reply says around its records; its id is the hash of all."""
        asked, now = question.metadata, time.time()
        return Metadata(
            run_id=asked.run_id,
            src_node_id=self.connection.node.node_id,
            dst_node_id=1,
            reply_to_message_id=asked.message_id,
            group_id=asked.group_id,
            ttl=asked.created_at + asked.ttl - now,
            message_type=asked.message_type,
            created_at=now,
        )

    def announce(self, question: Question, reply: Thing, **fields: Any) -> Any:
        """Tell the SuperLink of a reply; return its answer, in which it asks for objects."""
        told = self.metadata(question)
        told.message_id = reply.identity
        message = {"content": RecordDict()} | fields
        request = fleet.PushMessagesRequest(
            node=self.connection.node,
            messages_list=[Message(metadata=told, **message)],
            message_object_trees=[reply.tree()],
        )
        return self.connection.call("PushMessages", request)

    def push(self, question: Question, one: Thing, session: str, data: bytes | None = None) -> bool:
        """Send an object, or `data` in its place; return whether it was stored."""
        request = PushObjectRequest(
            node=self.connection.node,
            run_id=question.metadata.run_id,
            object_id=one.identity,
            object_content=one.content if data is None else data,
            session_id=session,
        )
        return bool(self.connection.call("PushObject", request).stored)

    def send(self, question: Question, said: Thing, **changes: Any) -> str:
        """Answer with records, as a device does."""
        return self.send_message(question, self.reply(question, said, **changes))

    def send_message(self, question: Question, reply: Thing, **fields: Any) -> str:
        """Announce a message and push all that the SuperLink asks for."""
        asked = self.announce(question, reply, **fields)
        wanted = set(asked.objects_to_push)
        stored = [
            self.push(question, one, asked.session_id)
            for one in {one.identity: one for one in reply.everything()}.values()
            if one.identity in wanted
        ]
        return f"{sum(stored)} of {len(wanted)} objects stored"

    def introduction(self, question: Question, **changes: Any) -> Thing:
        """Return an introduction that fits, but for `changes`."""
        x = np.linspace(-1.0, 1.0, 12 * FEATURES).reshape(12, FEATURES)
        said = {
            "client": self.name,
            "version": question.records["handshake"]["version"],
            "schema": question.records["handshake"]["schema"],
            "classes": CLASSES,
            "shape": [FEATURES],
            "examples": len(x),
            "capacity": 1.0,
            "count": len(x),
            "sum": x.sum(0).tolist(),
            "sumsq": (x**2).sum(0).tolist(),
        }
        return content({"handshake": config_record(said | changes)})

    def upload(self, question: Question, examples: int = 12) -> Thing:
        """Return the model that came down, unchanged: a whole upload of methods that average it.

        A later field of a protobuf message stands for itself: this one are the samples.
        """
        return payload(question.data + b"\x20" + bytes([examples]))
