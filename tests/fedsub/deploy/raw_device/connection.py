"""A device's connection to a SuperLink: TLS, calls signed with its key, heartbeats."""

from __future__ import annotations

import threading
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import grpc
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    PublicFormat,
    load_ssh_private_key,
)
from flwr.proto import fleet_pb2 as fleet
from flwr.proto.fleet_pb2_grpc import FleetStub
from flwr.proto.heartbeat_pb2 import SendNodeHeartbeatRequest
from flwr.proto.message_pb2 import ConfirmMessageReceivedRequest, PullObjectRequest
from flwr.proto.node_pb2 import Node

#: Seconds within which the SuperLink must hear of a device; it is told sooner.
HEARTBEAT = 30.0
CALL_SECONDS = 60.0
#: A SuperLink counts a call that it could not parse as one that goes on; a connection has 1000.
CALLS_EACH = 500


class Connection:
    """An activated node.

    Parameters
    ----------
    address : host and port of the SuperLink's API for SuperNodes.
    ca : file of the authority that signed its certificate.
    key : file of a registered private key, in OpenSSH's format.
    claims : another's public key, in PEM, to be let in as; by default one's own.
    """

    def __init__(self, address: str, ca: Path, key: Path, claims: bytes = b"") -> None:
        private = load_ssh_private_key(key.read_bytes(), password=None)
        assert isinstance(private, ec.EllipticCurvePrivateKey)
        self._key = private
        #: Bytes of all requests.
        self.sent = 0
        form = Encoding.PEM, PublicFormat.SubjectPublicKeyInfo
        self._public = private.public_key().public_bytes(*form)
        self._address, self._ca = address, ca.read_bytes()
        self._channel, self._raw, self._raw_calls = self._open(), self._open(), 0
        self._stub = FleetStub(self._channel)
        request = fleet.ActivateNodeRequest(
            public_key=claims or self._public, heartbeat_interval=HEARTBEAT
        )
        self.node = Node(node_id=self.call("ActivateNode", request).node_id)
        self._closed = threading.Event()
        threading.Thread(target=self._beat, daemon=True).start()

    def call(self, method: str, request: Any) -> Any:
        """Call one of the fleet's methods; raises grpc.RpcError as gRPC does."""
        self.sent += request.ByteSize()
        return getattr(self._stub, method)(request, metadata=self._signed(), timeout=CALL_SECONDS)

    def call_raw(self, method: str, data: bytes) -> bytes:
        """Call a method with bytes that may be no request; raises as :meth:`call`."""
        self.sent += len(data)
        self._raw_calls += 1
        if self._raw_calls % CALLS_EACH == 0:
            self._raw.close()
            self._raw = self._open()
        made = self._raw.unary_unary(f"/flwr.proto.Fleet/{method}")
        return bytes(made(data, metadata=self._signed(), timeout=CALL_SECONDS))

    def _open(self) -> grpc.Channel:
        options = [("grpc.max_send_message_length", -1), ("grpc.max_receive_message_length", -1)]
        # Else channels of one process to one server share a connection.
        options.append(("grpc.use_local_subchannel_pool", 1))
        credentials = grpc.ssl_channel_credentials(self._ca)
        return grpc.secure_channel(self._address, credentials, options=options)

    def _signed(self) -> tuple[tuple[str, str | bytes], ...]:
        stamp = datetime.now(UTC).isoformat()
        signature = self._key.sign(stamp.encode(), ec.ECDSA(SHA256()))
        return (
            ("flwr-public-key-bin", self._public),
            ("flwr-timestamp", stamp),
            ("flwr-signature-bin", signature),
        )

    def pull(self) -> tuple[Any, Any] | None:
        """Return the next message to this node and the tree of its objects, if there is one."""
        came = self.call("PullMessages", fleet.PullMessagesRequest(node=self.node))
        if not came.messages_list:
            return None
        return came.messages_list[0], came.message_object_trees[0]

    def pull_object(self, run: int, identity: str) -> bytes | None:
        """Return an object's bytes; None as long as they are not there."""
        request = PullObjectRequest(node=self.node, run_id=run, object_id=identity)
        found = self.call("PullObject", request)
        return bytes(found.object_content) if found.object_available else None

    def confirm(self, run: int, identity: str) -> None:
        """Say that a message has been received."""
        request = ConfirmMessageReceivedRequest(
            node=self.node, run_id=run, message_object_id=identity
        )
        self.call("ConfirmMessageReceived", request)

    def close(self) -> None:
        """Say good-bye."""
        self._closed.set()
        self.call("DeactivateNode", fleet.DeactivateNodeRequest(node_id=self.node.node_id))
        self._channel.close()

    def _beat(self) -> None:
        while not self._closed.wait(HEARTBEAT / 3):
            request = SendNodeHeartbeatRequest(node=self.node, heartbeat_interval=HEARTBEAT)
            with suppress(grpc.RpcError):  # the next one may come through
                self.call("SendNodeHeartbeat", request)
