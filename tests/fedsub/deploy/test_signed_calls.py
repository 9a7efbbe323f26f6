"""Whoever a call to the SuperLink names is who signed it: over gRPC and TLS, with real keys."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import grpc
import pytest
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    PublicFormat,
    load_ssh_public_key,
)
from flwr.proto.fleet_pb2 import (
    DeactivateNodeRequest,
    PullMessagesRequest,
    PushMessagesRequest,
    RegisterNodeFleetRequest,
)
from flwr.proto.message_pb2 import Message, Metadata, ObjectTree
from flwr.proto.node_pb2 import Node
from flwr.server.superlink.linkstate import LinkStateFactory
from flwr.supercore.object_store import ObjectStoreFactory
from flwr.superlink.federation import NoOpFederationManager

from fedsub.deploy.certificates import make_certificates
from fedsub.deploy.guarded_superlink import guard_flower
from fedsub.deploy.keys import make_node_key
from fedsub_core.flower.superlink import command

from .raw_device.connection import Connection

# Flower's migrations of its database are set up as Alembic used to want it.
pytestmark = pytest.mark.filterwarnings("ignore:No path_separator:DeprecationWarning")


@dataclass
class Fleet:
    """A SuperLink's API for SuperNodes, in this process; all else of it is left out."""

    folder: Path
    address: str
    state: Any
    connections: list[Connection] = field(default_factory=list)

    def key(self, name: str) -> Path:
        """The private key of a device, which is made if it is new."""
        if not (path := self.folder / name).exists():
            make_node_key(path)
        return path

    def public(self, name: str) -> bytes:
        """The public key of a device, as Flower keeps it."""
        line = self.key(name).with_suffix(".pub").read_bytes()
        return load_ssh_public_key(line).public_bytes(
            Encoding.PEM, PublicFormat.SubjectPublicKeyInfo
        )

    def register(self, name: str) -> int:
        return int(self.state.create_node("owner", name, self.public(name), 30.0))

    def connect(self, name: str, claims: bytes = b"") -> Connection:
        """Have a device let in, or one that says that it is another."""
        made = Connection(self.address, self.folder / "ca.crt", self.key(name), claims)
        self.connections.append(made)
        return made

    def close(self) -> None:
        """End all connections; some have said good-bye already."""
        for connection in self.connections:
            with suppress(grpc.RpcError):
                connection.close()

    def online(self) -> set[int]:
        """The nodes that are let in."""
        return {n.node_id for n in self.state.get_node_info() if n.status == "online"}


@pytest.fixture
def fleet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Fleet]:
    flower = command()
    for name in ("FleetServicer", "GRPC_MAX_MESSAGE_LENGTH"):
        monkeypatch.setattr(flower, name, getattr(flower, name))
    make_certificates(tmp_path, ["127.0.0.1"])
    files = ("ca.crt", "server.pem", "server.key")
    objects = ObjectStoreFactory(str(tmp_path / "link.db"))
    states = LinkStateFactory(str(tmp_path / "link.db"), NoOpFederationManager(), objects)
    server = guard_flower()._run_fleet_api_grpc_rere(
        address="127.0.0.1:0",
        state_factory=states,
        objectstore_factory=objects,
        enable_supernode_auth=True,
        certificates=tuple((tmp_path / name).read_bytes() for name in files),
        interceptors=[flower.NodeAuthServerInterceptor(states)],
    )
    fleet = Fleet(tmp_path, server.bound_address, states.state())
    yield fleet
    fleet.close()
    server.stop(grace=None).wait()


@pytest.mark.parametrize("cheat", ["stranger", "ben"])
def test_nobody_is_let_in_by_anothers_key_and_the_device_itself_is(
    fleet: Fleet, cheat: str
) -> None:
    """`anna` is registered and offline; a stranger's key is not, `ben`'s is."""
    node = fleet.register("anna")
    fleet.register("ben")
    for _ in range(2):
        with pytest.raises(grpc.RpcError, match="did not sign this call") as refused:
            fleet.connect(cheat, claims=fleet.public("anna"))
        assert refused.value.code() == grpc.StatusCode.PERMISSION_DENIED
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
    with pytest.raises(grpc.RpcError, match="Invalid node ID"):
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
    with pytest.raises(grpc.RpcError) as refused:
        ben.call("PushMessages", request)
    assert refused.value.code() == grpc.StatusCode.PERMISSION_DENIED
    got = f"node {ben.node.node_id}: got a message from node {anna.node.node_id}"
    assert got in str(refused.value.details())
    # Its own passes this door, and is refused for its run, which there is not.
    said.metadata.src_node_id = ben.node.node_id
    with pytest.raises(grpc.RpcError) as unknown:
        ben.call(
            "PushMessages",
            PushMessagesRequest(
                node=ben.node,
                messages_list=[said],
                message_object_trees=request.message_object_trees,
            ),
        )
    assert unknown.value.code() != grpc.StatusCode.PERMISSION_DENIED


def test_nobody_registers_anothers_key(fleet: Fleet) -> None:
    """Where no keys are demanded a node registers itself; what it registers is its own."""
    fleet.register("ben")
    ben = fleet.connect("ben")
    with pytest.raises(grpc.RpcError, match="did not sign this call"):
        ben.call("RegisterNode", RegisterNodeFleetRequest(public_key=fleet.public("anna")))
    assert fleet.register("anna")
