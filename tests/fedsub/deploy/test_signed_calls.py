"""Whoever a call to the SuperLink names is who signed it: over TLS, with real keys.

Over gRPC or HTTP, as the Flower that is installed has it.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import uvicorn
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
from fedsub.deploy.flower_process import free_ports, is_healthy
from fedsub.deploy.guarded_superlink import guard_grpc, guard_http
from fedsub.deploy.keys import make_node_key
from fedsub_core.flower.superlink import command, fleet_handlers

from .raw_device.connection import OVER_HTTP, Connection, Refused

# Flower's migrations of its database are set up as Alembic used to want it.
pytestmark = pytest.mark.filterwarnings("ignore:No path_separator:DeprecationWarning")

#: Flower 1.42 refuses both itself, and says no more than that.
INVALID = "UNAUTHENTICATED: .*Invalid SuperNode authentication"
NOT_THE_SIGNER = INVALID if OVER_HTTP else "PERMISSION_DENIED: .* did not sign this call"
NOT_THE_NODE = INVALID if OVER_HTTP else "Invalid node ID"


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
            with suppress(Refused):
                connection.close()

    def online(self) -> set[int]:
        """The nodes that are let in."""
        return {n.node_id for n in self.state.get_node_info() if n.status == "online"}


@pytest.fixture
def fleet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Fleet]:
    make_certificates(tmp_path, ["127.0.0.1"])
    with (over_http if OVER_HTTP else over_grpc)(tmp_path, monkeypatch) as fleet:
        yield fleet
        fleet.close()


@contextmanager
def over_grpc(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Fleet]:
    """Answer as 1.39's SuperLink does."""
    flower = command()
    for name in ("FleetServicer", "GRPC_MAX_MESSAGE_LENGTH"):
        monkeypatch.setattr(flower, name, getattr(flower, name))
    files = ("ca.crt", "server.pem", "server.key")
    objects = ObjectStoreFactory(str(folder / "link.db"))
    states = LinkStateFactory(str(folder / "link.db"), NoOpFederationManager(), objects)
    server = guard_grpc()._run_fleet_api_grpc_rere(
        address="127.0.0.1:0",
        state_factory=states,
        objectstore_factory=objects,
        enable_supernode_auth=True,
        certificates=tuple((folder / name).read_bytes() for name in files),
        interceptors=[flower.NodeAuthServerInterceptor(states)],
    )
    yield Fleet(folder, server.bound_address, states.state())
    server.stop(grace=None).wait()


@contextmanager
def over_http(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Fleet]:
    """Answer as 1.42's SuperLink does: its application, with the options of its command."""
    flower, handlers = command(), fleet_handlers()
    port, control = free_ports(2)
    monkeypatch.setattr(flower, "uvicorn", flower.uvicorn)
    monkeypatch.setattr(handlers, "push_messages", handlers.push_messages)
    names = {"ssl-ca-certfile": "ca.crt", "ssl-certfile": "server.pem", "ssl-keyfile": "server.key"}
    options = [f"--{name}={folder / file}" for name, file in names.items()]
    options += ["--host=127.0.0.1", f"--port={control}", f"--database={folder / 'link.db'}"]
    options += [f"--fleet-api-address=127.0.0.1:{port}", "--enable-supernode-auth"]
    monkeypatch.setattr("sys.argv", ["fedsub-superlink", *options, "--isolation=process"])
    servers = list[uvicorn.Server]()

    class Kept(uvicorn.Server):
        def __init__(self, *args: Any, **keys: Any) -> None:
            super().__init__(*args, **keys)
            servers.append(self)

    monkeypatch.setattr(uvicorn, "Server", Kept)
    thread = threading.Thread(target=guard_http().flower_superlink)
    thread.start()
    url, until = f"https://127.0.0.1:{control}", time.monotonic() + 60
    while not is_healthy(url, folder / "ca.crt"):
        assert thread.is_alive() and time.monotonic() < until
        time.sleep(0.05)
    door: Any = servers[0].config.app
    yield Fleet(folder, f"127.0.0.1:{port}", door.app.state.linkstate_factory.state())
    servers[0].should_exit = True
    thread.join()


@pytest.mark.parametrize("cheat", ["stranger", "ben"])
def test_nobody_is_let_in_by_anothers_key_and_the_device_itself_is(
    fleet: Fleet, cheat: str
) -> None:
    """`anna` is registered and offline; a stranger's key is not, `ben`'s is."""
    node = fleet.register("anna")
    fleet.register("ben")
    for _ in range(2):
        with pytest.raises(Refused, match=NOT_THE_SIGNER):
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
