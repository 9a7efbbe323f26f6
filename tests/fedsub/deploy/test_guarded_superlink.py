"""What a device may announce has bounds, what devices need passes, and a write waits its turn."""

from itertools import count
from typing import Any

import grpc
import pytest
from flwr.proto.fleet_pb2 import (
    PullMessagesRequest,
    PullMessagesResponse,
    PushMessagesRequest,
    PushMessagesResponse,
)
from flwr.proto.message_pb2 import (
    ConfirmMessageReceivedRequest,
    Message,
    Metadata,
    ObjectTree,
    PushObjectRequest,
    PushObjectResponse,
)
from flwr.proto.node_pb2 import Node
from flwr.server.superlink.fleet.grpc_rere.fleet_servicer import FleetServicer

from fedsub.deploy.allowance import MOST_OBJECTS, OBJECTS_A_SECOND, Allowance, count_objects
from fedsub.deploy.guarded_superlink import GuardedServicer
from fedsub.deploy.lost_answers import MOST_PUSHES, MOST_TIMES, SECONDS, LostAnswers
from fedsub.testing.refusals import refused

# Flower's migrations of its database are set up as Alembic used to want it.
pytestmark = pytest.mark.filterwarnings("ignore:No path_separator:DeprecationWarning")


class Aborted(Exception):
    """What gRPC raises where a call is refused."""


class Call:
    """The context of a call."""

    def abort(self, code: grpc.StatusCode, said: str) -> None:
        raise Aborted(code.name, said)


@pytest.fixture
def servicer(monkeypatch: pytest.MonkeyPatch) -> GuardedServicer:
    """Return the guard before a SuperLink that takes everything."""
    waiting = [
        PullMessagesResponse(
            messages_list=[Message()], message_object_trees=[ObjectTree(object_id=i)]
        )
        for i in ("second", "first")
    ]

    def pull(self: Any, request: Any, context: Any) -> PullMessagesResponse:
        return waiting.pop() if waiting else PullMessagesResponse()

    monkeypatch.setattr(FleetServicer, "PushMessages", lambda self, request, context: taken())
    monkeypatch.setattr(FleetServicer, "PullMessages", pull)
    monkeypatch.setattr(FleetServicer, "ConfirmMessageReceived", lambda *given: "confirmed")
    nothing: Any = None
    return GuardedServicer(nothing, nothing, enable_supernode_auth=True)


def taken() -> PushMessagesResponse:
    return PushMessagesResponse(objects_to_push=["chunk"])


def request(objects: int, node: int = 7, name: str = "message") -> PushMessagesRequest:
    """A reply of so many objects: a message, and in it chunks."""
    chunks = [ObjectTree(object_id=str(i)) for i in range(objects - 1)]
    tree = ObjectTree(object_id=name, children=chunks)
    return PushMessagesRequest(node=Node(node_id=node), message_object_trees=[tree])


def test_a_reply_passes_and_one_of_too_many_objects_does_not(servicer: GuardedServicer) -> None:
    assert servicer.PushMessages(request(60), Call()) == taken()
    with refused(Aborted, "node 7", got=MOST_OBJECTS):
        servicer.PushMessages(request(30_000, name="large"), Call())
    # It is refused for what it is, and costs its sender nothing of what it may announce.
    assert servicer.PushMessages(request(60), Call()) == taken()


def test_who_announces_over_and_over_is_refused_and_the_others_are_not(
    servicer: GuardedServicer,
) -> None:
    assert servicer.PushMessages(request(MOST_OBJECTS), Call()) == taken()
    with pytest.raises(Aborted, match="RESOURCE_EXHAUSTED"):
        servicer.PushMessages(request(600, name="another"), Call())
    assert servicer.PushMessages(request(600, node=8), Call()) == taken()


def test_an_allowance_grows_back() -> None:
    now = [0.0]
    allowance = Allowance(lambda: now[0])
    assert allowance.spend(7, MOST_OBJECTS) and not allowance.spend(7, 50)
    now[0] = 50 / OBJECTS_A_SECOND
    assert allowance.spend(7, 50) and not allowance.spend(7, 1)
    now[0] = 1e6
    assert not allowance.spend(7, MOST_OBJECTS + 1) and allowance.spend(7, MOST_OBJECTS)


def test_objects_are_counted_in_all_trees_and_no_further_than_they_matter() -> None:
    assert count_objects([], 10) == 0
    nested = ObjectTree(object_id="a", children=[ObjectTree(object_id="b")])
    assert count_objects([nested, nested], 10) == 4
    assert count_objects(request(30_000).message_object_trees, 10) == 11


def pulled(servicer: GuardedServicer, node: int = 7) -> list[str]:
    answer = servicer.PullMessages(PullMessagesRequest(node=Node(node_id=node)), Call())
    return [tree.object_id for tree in answer.message_object_trees]


def confirm(servicer: GuardedServicer, message: str, node: int = 7) -> None:
    said = ConfirmMessageReceivedRequest(node=Node(node_id=node), message_object_id=message)
    assert servicer.ConfirmMessageReceived(said, Call()) == "confirmed"


def test_a_message_whose_answer_was_lost_is_given_again_until_it_is_confirmed(
    servicer: GuardedServicer,
) -> None:
    assert pulled(servicer) == ["first"]
    assert pulled(servicer, node=8) == ["second"]
    confirm(servicer, "first", node=8)
    confirm(servicer, "first", node=9)
    assert pulled(servicer) == ["first"] and pulled(servicer, node=8) == ["second"]
    confirm(servicer, "first")
    assert pulled(servicer) == [] and pulled(servicer, node=8) == ["second"]


def test_a_message_that_is_never_confirmed_makes_room_for_the_next(
    servicer: GuardedServicer,
) -> None:
    assert [pulled(servicer) for _ in range(1 + MOST_TIMES)] == [["first"]] * (1 + MOST_TIMES)
    assert pulled(servicer) == ["second"]


@pytest.mark.parametrize("objects", [600, MOST_OBJECTS])
def test_a_reply_whose_answer_was_lost_gets_that_answer_again(
    servicer: GuardedServicer, objects: int
) -> None:
    """Flower refuses a reply that the server has read, and its objects would never come."""
    first = servicer.PushMessages(request(objects), Call())
    assert servicer.PushMessages(request(objects), Call()) is first
    with pytest.raises(Aborted, match="RESOURCE_EXHAUSTED"):
        servicer.PushMessages(request(objects, name="another"), Call())


def test_answers_to_pushes_are_kept_for_a_while_and_by_node() -> None:
    now = [0.0]
    answers, given = LostAnswers(lambda: now[0]), count()

    def push(name: str, node: int = 7) -> str:
        took = PushMessagesResponse(objects_to_push=[str(next(given))])
        answer = answers.push(request(3, node, name), lambda: took)
        return str(*answer.objects_to_push)

    assert [push("a"), push("a"), push("a", node=8), push("b")] == ["0", "0", "2", "3"]
    assert [push("a"), push("b")] == ["0", "3"]
    now[0] = SECONDS + 1.0
    assert [push("a"), push("a")] == ["6", "6"]
    for i in range(MOST_PUSHES):
        push(str(i))
    assert push("a") != "6"


def test_what_flower_did_not_take_is_asked_of_it_again() -> None:
    answers, given = LostAnswers(), iter([False, True, False])
    pushed = PushObjectRequest(node=Node(node_id=7), session_id="s", object_id="o")

    def push() -> bool:
        took = answers.push_object(pushed, lambda: PushObjectResponse(stored=next(given)))
        return bool(took.stored)

    assert [push(), push(), push()] == [False, True, True]


def test_a_message_is_not_given_again_later_nor_once_it_is_answered(
    servicer: GuardedServicer,
) -> None:
    now = [0.0]
    servicer.answers = LostAnswers(lambda: now[0])
    assert pulled(servicer) == ["first"]
    now[0] = SECONDS + 1.0
    assert pulled(servicer) == ["second"]
    said = request(3)
    said.messages_list.append(Message(metadata=Metadata(reply_to_message_id="second")))
    said.messages_list[0].metadata.src_node_id = 7
    servicer.PushMessages(said, Call())
    assert pulled(servicer) == []
