"""A SuperLink's API for SuperNodes in the test's process, over TLS and with real keys.

Over gRPC or HTTP, as the Flower that is installed has it.
"""

import threading
import time
from collections.abc import Iterator
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
from flwr.server.superlink.linkstate import LinkStateFactory
from flwr.supercore.object_store import ObjectStoreFactory
from flwr.superlink.federation import NoOpFederationManager

from fedsub.deploy.certificates import make_certificates
from fedsub.deploy.flower_process import free_ports, is_healthy
from fedsub.deploy.guarded_superlink import guard_grpc, guard_http
from fedsub.deploy.keys import make_node_key
from fedsub_core.flower.superlink import command, fleet_handlers

from .raw_device.connection import OVER_HTTP, Connection, Refused


@dataclass
class Fleet:
    """A SuperLink's API for SuperNodes, in this process; all else of it is left out."""

    folder: Path
    address: str
    state: Any
    #: The port to which its connections are handed on.
    behind: int
    #: Where runs come, and keys are revoked: of 1.42 alone, which answers all in one process.
    control: str = ""
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
    for name in ("FleetServicer", "GRPC_MAX_MESSAGE_LENGTH", "generic_create_grpc_server"):
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
    yield Fleet(folder, server.bound_address, states.state(), server.relay.behind[1])
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
    thread = threading.Thread(target=guard_http(None, folder / "invitations").flower_superlink)
    thread.start()
    url, until = f"https://127.0.0.1:{control}", time.monotonic() + 60
    while not is_healthy(url, folder / "ca.crt"):
        assert thread.is_alive() and time.monotonic() < until
        time.sleep(0.05)
    door: Any = servers[0].config.app
    state, behind = door.app.state.linkstate_factory.state(), door.relay.behind[1]
    yield Fleet(folder, f"127.0.0.1:{port}", state, behind, f"127.0.0.1:{control}")
    servers[0].should_exit = True
    thread.join()
