"""Whoever a call to the SuperLink names is who signed it: over TLS, with real keys.

Over gRPC or HTTP, as the Flower that is installed has it.
"""

from collections.abc import Callable
from typing import Any

import pytest
from flwr.proto.fleet_pb2 import (
    DeactivateNodeRequest,
    PullMessagesRequest,
    PushMessagesRequest,
    RegisterNodeFleetRequest,
)
from flwr.proto.message_pb2 import Message, Metadata, ObjectTree
from flwr.proto.node_pb2 import Node

from .fleet_api import Fleet
from .raw_device.connection import OVER_HTTP, Refused

# Flower's migrations of its database are set up as Alembic used to want it.
pytestmark = pytest.mark.filterwarnings("ignore:No path_separator:DeprecationWarning")

#: Flower 1.42 refuses both itself, and says no more than that.
INVALID = "UNAUTHENTICATED: .*Invalid SuperNode authentication"
NOT_THE_SIGNER = INVALID if OVER_HTTP else "PERMISSION_DENIED: .* did not sign this call"
#: Refused before it is read whom it names.
A_STRANGER = ": .*its public key is not registered"
NOT_THE_NODE = INVALID if OVER_HTTP else "Invalid node ID"


@pytest.mark.parametrize("cheat", ["stranger", "ben"])
def test_nobody_is_let_in_by_anothers_key_and_the_device_itself_is(
    fleet: Fleet, cheat: str
) -> None:
    """`anna` is registered and offline; a stranger's key is not, `ben`'s is."""
    node = fleet.register("anna")
    fleet.register("ben")
    for _ in range(2):
        refused = A_STRANGER if cheat == "stranger" else NOT_THE_SIGNER
        with pytest.raises(Refused, match=refused):
            fleet.connect(cheat, claims=fleet.public("anna"))
    assert fleet.online() == set()
    honest = fleet.connect("anna")
    assert honest.node.node_id == node and fleet.online() == {node}


def deactivate(node: int) -> DeactivateNodeRequest:
    return DeactivateNodeRequest(node_id=node)


def pull(node: int) -> PullMessagesRequest:
    return PullMessagesRequest(node=Node(node_id=node))


@pytest.mark.parametrize(
    ("method", "request_of"), [("DeactivateNode", deactivate), ("PullMessages", pull)]
)
def test_a_call_in_the_name_of_another_node_is_refused(
    fleet: Fleet, method: str, request_of: Callable[[int], Any]
) -> None:
    fleet.register("anna")
    fleet.register("ben")
    anna, ben = fleet.connect("anna"), fleet.connect("ben")
    with pytest.raises(Refused, match=NOT_THE_NODE):
        ben.call(method, request_of(anna.node.node_id))
    assert fleet.online() == {anna.node.node_id, ben.node.node_id}
    for one in (anna, ben):
        one.call(method, request_of(one.node.node_id))


def test_a_reply_in_the_name_of_another_node_is_refused(fleet: Fleet) -> None:
    """The call names its own node; the message in it says that it comes from another."""
    fleet.register("anna")
    fleet.register("ben")
    anna, ben = fleet.connect("anna"), fleet.connect("ben")
    said = Message(metadata=Metadata(src_node_id=anna.node.node_id, run_id=1))
    request = PushMessagesRequest(
        node=ben.node, messages_list=[said], message_object_trees=[ObjectTree(object_id="0" * 64)]
    )
    got = f"node {ben.node.node_id}: got a message from node {anna.node.node_id}"
    with pytest.raises(Refused, match=got) as refused:
        ben.call("PushMessages", request)
    assert refused.value.reason == "PERMISSION_DENIED"
    # Its own passes this door, and is refused for its run, which there is not.
    said.metadata.src_node_id = ben.node.node_id
    with pytest.raises(Refused) as unknown:
        ben.call(
            "PushMessages",
            PushMessagesRequest(
                node=ben.node,
                messages_list=[said],
                message_object_trees=request.message_object_trees,
            ),
        )
    assert unknown.value.reason != "PERMISSION_DENIED"


def test_nobody_registers_anothers_key(fleet: Fleet) -> None:
    """Where no keys are demanded a node registers itself; what it registers is its own."""
    fleet.register("ben")
    ben = fleet.connect("ben")
    with pytest.raises(Refused, match=NOT_THE_SIGNER):
        ben.call("RegisterNode", RegisterNodeFleetRequest(public_key=fleet.public("anna")))
    assert fleet.register("anna")
