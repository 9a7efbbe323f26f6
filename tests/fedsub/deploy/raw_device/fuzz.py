"""A fuzzing device: mutants of all it may send, through every door that a registered key opens.

A device may answer only what it was asked. Mutants of answers beyond that come unasked: for
messages that were answered, or that are another's; beside them come calls, objects, confirmations.
"""

import os
import threading
from collections import Counter
from collections.abc import Callable
from hashlib import sha256
from random import Random
from typing import Any

from flwr.proto.fleet_pb2 import PullMessagesRequest, PushMessagesRequest
from flwr.proto.heartbeat_pb2 import SendNodeHeartbeatRequest
from flwr.proto.message_pb2 import (
    ConfirmMessageReceivedRequest,
    Message,
    ObjectTree,
    PullObjectRequest,
    PushObjectRequest,
)
from flwr.proto.recorddict_pb2 import RecordDict
from flwr.proto.run_pb2 import GetRunRequest

from .connection import Refused
from .device import Device, Question
from .objects import Thing, body_of, content, metric_record, payload, thing

#: How many mutants a device sends at most, and seconds between two: it shall not be a mere flood.
MUTANTS = int(os.environ.get("FEDSUB_RAW_MUTANTS", "300"))
PAUSE_SECONDS = 0.005
RUBBISH = (b"\xff" * 10, b"\x0a\xff\xff\xff\xff\x0f", b"\x0b" * 50, b"\x0a\x00" * 200, b"\x00", b"")


def mutated(data: bytes, random: Random) -> bytes:
    """Return bytes with some of them changed, gone, repeated or made up."""
    for _ in range(random.choice((1, 1, 2, 5))):
        start = random.randrange(len(data) + 1)
        end = min(len(data), start + random.choice((1, 4, 40)))
        middle = random.choice(
            (b"", data[start:end] * 3, random.randbytes(end - start), random.choice(RUBBISH))
        )
        data = data[:start] + middle + data[end:]
    return data


def mutant(one: Thing, random: Random) -> Thing:
    """Return an object of which a part is mutated, under its own hash; or only the whole's tree."""
    if one.children and random.random() < 0.7:
        i = random.randrange(len(one.children))
        child = mutant(one.children[i], random)
        children = (*one.children[:i], child, *one.children[i + 1 :])
        # Mostly it names what there is: else nobody would look further.
        old, new = (c.identity.encode() for c in (one.children[i], child))
        whole = one.content.replace(old, new) if random.random() < 0.9 else one.content
        return Thing(whole, children)
    if random.random() < 0.2:
        return Thing(one.content, one.children[:-1])
    kind, body = body_of(one.content)
    if random.random() < 0.8:
        return thing(kind, mutated(body, random), one.children)
    return Thing(mutated(one.content, random), one.children)


class Fuzzer:
    """The manners of a device that answers with mutants, and never waits to be asked.

    Parameters
    ----------
    seed : all mutants follow from it, and from what the server sends.
    """

    def __init__(self, seed: int) -> None:
        self.random, self.counts = Random(seed), Counter[str]()
        self.question: Question | None = None
        self._started = False

    def __call__(self, device: Device, question: Question) -> str:
        """Answer a question with a mutant of a good reply, or where that is not taken an error."""
        self.question = question
        if not self._started:
            self._started = True
            threading.Thread(target=self._go_on, args=(device,), daemon=True).start()
        if question.metadata.message_type == "query":
            good = device.introduction(question)
            if self.random.random() < 0.5:
                return device.send(question, good)  # to be asked for more
        else:
            fine = {"macro_f1": 0.5, "accuracy": 0.5, "loss": 1.0, "examples": 9.0}
            good = content({"payload": device.upload(question), "metrics": metric_record(fine)})
        self.counts["answers"] += 1
        return device.send(question, mutant(good, self.random))

    def _go_on(self, device: Device) -> None:
        doors = (self._reply, self._object, self._confirmation, self._call)
        for sent in range(MUTANTS):
            door = self.random.choice(doors)
            try:
                outcome = door(device)
            except Refused as error:
                outcome = error.reason
            self.counts[door.__name__.strip("_")] += 1
            self.counts[f"outcome {outcome}"] += 1
            if sent % 100 == 99 or sent == MUTANTS - 1:
                device.note({"device": device.name, "kind": "mutants", **self.counts})
            threading.Event().wait(PAUSE_SECONDS)

    def _reply(self, device: Device) -> str:
        """Push a mutant of a reply to a message that is answered, or never was there."""
        assert self.question is not None
        reply = device.reply(self.question, content({"payload": payload(b"\x08\x02")}))
        told = device.metadata(self.question)
        told.message_id = reply.identity
        if self.random.random() < 0.5:
            told.reply_to_message_id = self._hash()
        request = PushMessagesRequest(
            node=device.connection.node,
            messages_list=[Message(metadata=told, content=RecordDict())],
            message_object_trees=[mutant(reply, self.random).tree()],
        )
        return self._send(device, "PushMessages", request)

    def _object(self, device: Device) -> str:
        """Push an object that nobody waits for."""
        assert self.question is not None
        one = mutant(content({"payload": payload(self.random.randbytes(50))}), self.random)
        request = PushObjectRequest(
            node=device.connection.node,
            run_id=self.question.metadata.run_id,
            object_id=one.identity,
            object_content=one.content,
            session_id=self.random.choice(("", "no session", self._hash())),
        )
        return self._send(device, "PushObject", request)

    def _confirmation(self, device: Device) -> str:
        """Confirm a message of somebody else's, or one's own again."""
        assert self.question is not None
        request = ConfirmMessageReceivedRequest(
            node=device.connection.node,
            run_id=self.question.metadata.run_id,
            message_object_id=self.random.choice((self.question.metadata.message_id, self._hash())),
        )
        return self._send(device, "ConfirmMessageReceived", request)

    def _call(self, device: Device) -> str:
        """Call with a request that is broken itself."""
        assert self.question is not None
        run, node = self.question.metadata.run_id, device.connection.node
        tree = ObjectTree(object_id=self._hash(), children=[ObjectTree(object_id="no id")])
        requests: list[tuple[str, Any]] = [
            ("PushMessages", PushMessagesRequest(node=node)),
            ("PushMessages", PushMessagesRequest(node=node, message_object_trees=[tree])),
            ("PullObject", PullObjectRequest(node=node, run_id=run, object_id=self._hash())),
            ("GetRun", GetRunRequest(node=node, run_id=self.random.getrandbits(63))),
            ("SendNodeHeartbeat", SendNodeHeartbeatRequest(node=node, heartbeat_interval=-1.0)),
            ("PullMessages", PullMessagesRequest(node=node, message_ids=["x" * 1000])),
        ]
        return self._send(device, *self.random.choice(requests), most_broken=0.7)

    def _send(self, device: Device, method: str, request: Any, most_broken: float = 0.3) -> str:
        data = request.SerializeToString()
        if self.random.random() < most_broken:
            data = mutated(data, self.random)
        device.connection.call_raw(method, data)
        return "taken"

    def _hash(self) -> str:
        return sha256(self.random.randbytes(8)).hexdigest()


def fuzzer(name: str) -> Callable[[Device, Question], str]:
    """Return the manners of a fuzzing device; each one's mutants are its own."""
    return Fuzzer(int.from_bytes(sha256(name.encode()).digest()[:4], "big"))
