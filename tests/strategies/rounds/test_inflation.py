"""An array that names one chunk again and again takes no memory of ours."""

import tracemalloc
from collections.abc import Iterable

import pytest
from flwr.app import Array, ArrayRecord, Message, MessageType, RecordDict
from flwr.app.message.arraychunk import ArrayChunk
from flwr.supercore.inflatable.inflatable_object import get_all_nested_objects
from flwr.supercore.inflatable.inflatable_utils import inflate_object_from_contents
from flwr.supercore.task_identity import TaskIdentity

from strategies.rounds.inflation import bounded
from strategies.rounds.link import Fault, Link

from ..partial_grid import PartialGrid

CHUNK = 1 << 20


@pytest.fixture(autouse=True)
def identity(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make this a task of Flower's, as it demands of whoever makes messages."""
    for name in ("_run_id", "_task_id", "_node_id"):
        monkeypatch.setattr(TaskIdentity, name, 1)


def bomb(times: int, arrays: int = 1) -> tuple[str, dict[str, bytes]]:
    """A record of arrays that each name one chunk many times: its id, and objects by id."""
    record, chunk = ArrayRecord(), ArrayChunk(memoryview(bytes(CHUNK)))
    for i in range(arrays):
        array = Array("uint8", (CHUNK * times + i,), "bomb", b"")
        array.__dict__["_chunks"] = [(chunk.object_id, chunk)] * times
        record[f"array {i}"] = array
    objects = get_all_nested_objects(record)
    return record.object_id, {name: one.deflate() for name, one in objects.items()}


class BombGrid(PartialGrid):
    """A network that brings a bomb, which is inflated where Flower's Grid does it."""

    in_process = False

    def __init__(self, times: int, arrays: int) -> None:
        self.bomb = bomb(times, arrays)

    def get_node_ids(self) -> Iterable[int]:
        return [1]

    def push_messages(self, messages: Iterable[Message]) -> Iterable[str]:
        return []

    def pull_messages(self, message_ids: Iterable[str]) -> Iterable[Message]:
        identity, contents = self.bomb
        record = inflate_object_from_contents(identity, dict(contents))
        assert isinstance(record, ArrayRecord)
        reply = Message(RecordDict({"payload": record}), 1, MessageType.TRAIN)
        (reply.metadata.__dict__["_reply_to_message_id"],) = message_ids
        return [reply]


@pytest.mark.parametrize(("times", "arrays"), [(1000, 1), (1, 1000), (40, 40)])
def test_it_is_refused_before_it_takes_memory(times: int, arrays: int) -> None:
    link = Link(BombGrid(times, arrays))
    link.most_bytes = 3 * CHUNK
    tracemalloc.start()
    try:
        found = link.pull(["question"])["question"]
        # One array within bounds, twice while it is made, beside the chunk and its object.
        assert tracemalloc.get_traced_memory()[1] < 16 * CHUNK
    finally:
        tracemalloc.stop()
    assert isinstance(found, Fault)
    assert "ValueError: arrays: got" in found.reason and found.reason.endswith("at most")


@pytest.mark.parametrize(("most", "fits"), [(0, False), (3 * CHUNK - 1, False), (3 * CHUNK, True)])
def test_equal_chunks_that_are_sent_once_may_take_what_an_upload_may(most: int, fits: bool) -> None:
    link = Link(BombGrid(times=3, arrays=1))
    link.most_bytes = most
    found = link.pull(["question"])["question"]
    assert isinstance(found, Message if fits else Fault)


def test_what_came_may_be_used_and_other_threads_have_no_bounds() -> None:
    identity, contents = bomb(times=1)
    with bounded(0):
        record = inflate_object_from_contents(identity, dict(contents))
    assert isinstance(record, ArrayRecord) and len(record["array 0"].data) == CHUNK
    identity, contents = bomb(times=9)
    record = inflate_object_from_contents(identity, dict(contents))
    assert isinstance(record, ArrayRecord) and len(record["array 0"].data) == 9 * CHUNK
