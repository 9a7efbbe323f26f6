"""A network on which one node answers with mutants, which are inflated as Flower's Grid does it."""

from collections.abc import Iterable, Mapping
from hashlib import sha256
from random import Random
from typing import cast

from flwr.app import Message, RecordDict
from flwr.supercore.inflatable.inflatable_object import get_all_nested_objects
from flwr.supercore.inflatable.inflatable_utils import inflate_object_from_contents

from ..partial_grid import PartialGrid

NODE = 7
RUBBISH = (b"\xff" * 10, b"\x0a\xff\xff\xff\xff\x0f", b"\x0b" * 50, b"\x0a\x00" * 200, b"\x00", b"")


def mutated(data: bytes, random: Random) -> bytes:
    """Return bytes with some of them changed, gone, repeated or made up."""
    for _ in range(random.choice((1, 1, 1, 3))):
        start = random.randrange(len(data) + 1)
        end = min(len(data), start + random.choice((1, 1, 4, 40)))
        flipped = bytes(b ^ 1 << random.randrange(8) for b in data[start:end])
        middle = random.choice((b"", flipped, flipped, data[start:end] * 3, random.choice(RUBBISH)))
        data = data[:start] + middle + data[end:]
    return data


def mutant(objects: Mapping[str, bytes], root: str, random: Random) -> tuple[str, dict[str, bytes]]:
    """Return an object of which one part is mutated, and its parts; ids are hashes again.

    Parts come before what they are part of, so that new hashes reach the whole.
    """
    target, gone = random.choice(list(objects)), random.random() < 0.05
    renamed: dict[bytes, bytes] = {}
    made: dict[str, bytes] = {}
    for old, content in objects.items():
        for before, after in renamed.items():
            content = content.replace(before, after)
        if old == target and not gone:
            head, body = content.split(b"\x00", 1)
            if random.random() < 0.8:
                body = mutated(body, random)
                kind, children, _ = head.split(b" ")
                content = b"%s %s %d\x00%s" % (kind, children, len(body), body)
            else:
                content = mutated(content, random)
        new = sha256(content).hexdigest()
        renamed[old.encode()] = new.encode()
        if not (old == target and gone):
            made[new] = content
    return renamed[root.encode()].decode(), made


class MutantGrid(PartialGrid):
    """A Grid whose only node answers every question with a mutant of a good answer."""

    in_process = False

    def __init__(self, random: Random) -> None:
        self.random = random
        #: What the next question is answered with, if it were not mutated.
        self.good = RecordDict()
        self._asked: dict[str, Message] = {}

    def get_node_ids(self) -> Iterable[int]:
        """Return the node."""
        return [NODE]

    def push_messages(self, messages: Iterable[Message]) -> Iterable[str]:
        """Take questions."""
        taken = []
        for message in messages:
            identity = sha256(self.random.randbytes(8)).hexdigest()
            message.metadata.__dict__["_message_id"] = identity
            self._asked[identity] = message
            taken.append(identity)
        return taken

    def pull_messages(self, message_ids: Iterable[str]) -> Iterable[Message]:
        """Answer them."""
        replies = []
        for identity in message_ids:
            reply = Message(self.good, reply_to=self._asked.pop(identity))
            parts = get_all_nested_objects(reply)
            objects = {name: part.deflate() for name, part in parts.items()}
            root, made = mutant(objects, reply.object_id, self.random)
            replies.append(cast(Message, inflate_object_from_contents(root, made)))
        return replies
