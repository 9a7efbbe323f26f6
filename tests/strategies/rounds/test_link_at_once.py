"""Flower's Grid is asked once for many replies, and each is read as if it were asked for alone."""

import time
from typing import Any

import pytest
from flwr.app import ConfigRecord, Message, MessageType, RecordDict
from flwr.common.serde import message_to_proto
from flwr.proto.message_pb2 import ConfirmMessageReceivedResponse, PullObjectResponse
from flwr.proto.node_pb2 import NodeInfo
from flwr.proto.runtime_pb2 import GetNodesResponse, PullAppMessagesResponse
from flwr.supercore.inflatable.inflatable_object import get_all_nested_objects, get_object_tree
from flwr.supercore.run import Run
from flwr.supercore.task_identity import TaskIdentity
from flwr.superlink.grid.http_grid import HttpGrid

from strategies.rounds import link
from strategies.rounds.link import ASKED_AT_ONCE, Fault, Link


class SuperLink:
    """What a Grid asks, in place of a SuperLink: it gives each reply once."""

    def __init__(self) -> None:
        self.replies: dict[str, Message] = {}
        self.objects: dict[str, bytes] = {}
        self.asked: list[int] = []
        self.confirmed: list[str] = []
        self.poison = ""

    def answer(self, question: Message, text: str) -> None:
        """Have a reply to a question come in."""
        records = RecordDict({"said": ConfigRecord({"text": text})})
        reply = Message(records, reply_to=question)
        reply.metadata.__dict__["_message_id"] = reply.object_id
        self.objects |= {i: one.deflate() for i, one in get_all_nested_objects(reply).items()}
        self.replies[question.metadata.message_id] = reply

    def PullMessages(self, request: Any) -> PullAppMessagesResponse:
        self.asked.append(len(request.message_ids))
        if self.poison in request.message_ids:
            raise ValueError("`message_ids` contains invalid IDs")
        said = PullAppMessagesResponse()
        for identity in set(request.message_ids) & self.replies.keys():
            reply = self.replies.pop(identity)
            proto = message_to_proto(reply)
            proto.content.Clear()
            said.messages_list.append(proto)
            said.message_object_trees.append(get_object_tree(reply))
        return said

    def PullObject(self, request: Any) -> PullObjectResponse:
        content = self.objects.get(request.object_id)
        found = content is not None
        return PullObjectResponse(
            object_found=found, object_available=found, object_content=content or b""
        )

    def ConfirmMessageReceived(self, request: Any) -> ConfirmMessageReceivedResponse:
        self.confirmed.append(request.message_object_id)
        return ConfirmMessageReceivedResponse()

    def GetNodes(self, request: Any) -> GetNodesResponse:
        return GetNodesResponse(nodes=[NodeInfo(node_id=1)])


@pytest.fixture
def superlink() -> SuperLink:
    TaskIdentity.run_id, TaskIdentity.task_id, TaskIdentity.node_id = 1, 1, 1
    return SuperLink()


@pytest.fixture
def grid(superlink: SuperLink) -> HttpGrid:
    made = HttpGrid(token="a token")
    made._client = superlink  # type: ignore[assignment]
    made._run = Run.create_empty(1)
    return made


def questions(count: int) -> list[Message]:
    """Return messages as if they had been sent to nodes."""
    made = []
    for i in range(count):
        said = RecordDict({"asked": ConfigRecord({"i": i})})
        message = Message(said, i + 10, MessageType.TRAIN)
        message.metadata.__dict__["_message_id"] = message.object_id
        made.append(message)
    return made


def texts(came: dict[str, Message | Fault]) -> dict[str, str]:
    """Return what replies say; why there is none."""
    return {
        i: one.reason if isinstance(one, Fault) else str(one.content.config_records["said"]["text"])
        for i, one in came.items()
    }


def test_many_messages_cost_few_requests(superlink: SuperLink, grid: HttpGrid) -> None:
    asked = questions(3 * ASKED_AT_ONCE + 1)
    ids = [one.metadata.message_id for one in asked]
    made = Link(grid)
    assert made.pull(ids) == {}
    assert superlink.asked == [ASKED_AT_ONCE] * 3 + [1]
    for i in (0, 5, 100):
        superlink.answer(asked[i], f"reply {i}")
    said = {ids[i]: f"reply {i}" for i in (0, 5, 100)}
    assert texts(made.pull(ids)) == said and len(superlink.confirmed) == 3
    # Nothing comes twice, and nobody gets another's.
    assert made.pull(ids) == {}


def test_a_reply_that_cannot_be_read_costs_itself_alone(
    superlink: SuperLink, grid: HttpGrid
) -> None:
    asked = questions(4)
    ids = [one.metadata.message_id for one in asked]
    for one in asked:
        superlink.answer(one, one.metadata.message_id)
    broken = superlink.replies[ids[2]]
    superlink.objects[broken.object_id] = b"no object"
    came = texts(Link(grid).pull(ids))
    assert {i: came[i] for i in ids if i != ids[2]} == {i: i for i in ids if i != ids[2]}
    assert came[ids[2]] != ids[2]


def test_an_id_that_the_link_refuses_costs_itself_alone(
    superlink: SuperLink, grid: HttpGrid
) -> None:
    asked = questions(5)
    ids = [one.metadata.message_id for one in asked]
    superlink.poison = ids[3]
    for one in asked[:3]:
        superlink.answer(one, "well")
    came = Link(grid).pull(ids)
    assert texts(came) == dict.fromkeys(ids[:3], "well") | {
        ids[3]: "ValueError: `message_ids` contains invalid IDs"
    }


def test_what_was_announced_is_kept_until_there_is_time_to_read_it(
    superlink: SuperLink, grid: HttpGrid, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The link says of a reply but once that it is there."""
    monkeypatch.setattr(link, "WORKERS", 1)
    asked = questions(6)
    ids = [one.metadata.message_id for one in asked]
    for one in asked:
        superlink.answer(one, one.metadata.message_id)
    fetch = superlink.PullObject

    def slowly(request: Any) -> PullObjectResponse:
        time.sleep(0.05)
        return fetch(request)

    monkeypatch.setattr(superlink, "PullObject", slowly)
    made, came = Link(grid, grace=0.2), dict[str, str]()
    first = texts(made.pull(ids))
    assert len(first) < 6
    came |= first
    limit = time.monotonic() + 20
    while len(came) < 6 and time.monotonic() < limit:
        time.sleep(0.02)  # the last one may just be on its way
        came |= texts(made.pull(set(ids) - came.keys()))
    assert came == {i: i for i in ids}


def test_any_other_grid_is_asked_for_each_alone(superlink: SuperLink, grid: HttpGrid) -> None:
    made = Link(grid)
    made.asks_at_once = False
    ids = [one.metadata.message_id for one in questions(3)]
    assert made.pull(ids) == {} and superlink.asked == [1, 1, 1]
