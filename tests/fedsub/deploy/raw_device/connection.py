"""A device's connection to a SuperLink: TLS, calls signed with its key, heartbeats.

Flower 1.39 speaks gRPC with SuperNodes, later ones HTTP: which, says what is installed. FedSub's
own code is not used here.
"""

import json
import re
import socket
import ssl
import threading
from base64 import b64encode
from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from importlib.metadata import version
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
from flwr.proto.heartbeat_pb2 import SendNodeHeartbeatRequest
from flwr.proto.message_pb2 import ConfirmMessageReceivedRequest, PullObjectRequest
from flwr.proto.node_pb2 import Node
from google.protobuf.message_factory import GetMessageClass

OVER_HTTP = not version("flwr").startswith("1.39.")
#: Seconds within which the SuperLink must hear of a device, and after which it does.
HEARTBEAT, BEAT = 30.0, 10.0
CALL_SECONDS = 60.0
#: A SuperLink counts a call that it could not parse as one that goes on; a connection has 1000.
CALLS_EACH = 500
#: What gRPC calls HTTP's reasons to refuse.
REASONS = {
    400: "INVALID_ARGUMENT",
    401: "UNAUTHENTICATED",
    403: "PERMISSION_DENIED",
    413: "RESOURCE_EXHAUSTED",
    429: "RESOURCE_EXHAUSTED",
}
#: Every call of a SuperNode's, with what it asks and answers.
METHODS = fleet.DESCRIPTOR.services_by_name["Fleet"].methods_by_name


class Refused(Exception):
    """A call was refused, or got no answer: why, by gRPC's name, and what was said."""

    def __init__(self, reason: str, said: str) -> None:
        super().__init__(f"{reason}: {said}")
        self.reason = reason


class Caller:
    """Makes calls to one SuperLink, whose certificate `ca` signed; headers show who calls."""

    def __init__(self, address: str, ca: bytes) -> None:
        self._address, self._ca = address, ca
        self._channel = None if OVER_HTTP else self._open()

    def __call__(self, method: str, data: bytes, headers: Mapping[str, bytes]) -> bytes:
        """Return what a method answers to some bytes; raises Refused."""
        if OVER_HTTP:
            return self._post(method, data, headers)
        assert self._channel is not None
        made = self._channel.unary_unary(f"/flwr.proto.Fleet/{method}")
        signed = [(n, v.decode()) if n == "flwr-timestamp" else (n, v) for n, v in headers.items()]
        try:
            return bytes(made(data, metadata=signed, timeout=CALL_SECONDS))
        except grpc.RpcError as error:
            raise Refused(error.code().name, str(error.details())) from error

    def close(self) -> None:
        """End the connection."""
        if self._channel is not None:
            self._channel.close()

    def _open(self) -> grpc.Channel:
        options = [("grpc.max_send_message_length", -1), ("grpc.max_receive_message_length", -1)]
        # Else channels of one process to one server share a connection.
        options.append(("grpc.use_local_subchannel_pool", 1))
        credentials = grpc.ssl_channel_credentials(self._ca)
        return grpc.secure_channel(self._address, credentials, options=options)

    def _post(self, method: str, data: bytes, headers: Mapping[str, bytes]) -> bytes:
        path = "/v1/fleet/" + re.sub(r"(?<=.)([A-Z])", r"-\1", method).lower()
        told = {"content-type": b"application/protobuf", **over_http(headers)}
        trusted = ssl.create_default_context(cadata=self._ca.decode())
        connection = HTTPSConnection(self._address, timeout=CALL_SECONDS, context=trusted)
        try:
            connection.request("POST", path, data, told)
            answer = connection.getresponse()
            got = answer.read()
        except (OSError, HTTPException) as error:
            raise Refused("UNAVAILABLE", str(error)) from error
        finally:
            connection.close()
        if answer.status >= 400:
            with suppress(ValueError):
                got = json.dumps(json.loads(got)).encode()
            raise Refused(REASONS.get(answer.status, f"HTTP {answer.status}"), got.decode())
        return got


def public_bytes(key: ec.EllipticCurvePrivateKey) -> bytes:
    """Return a key's public half, as Flower keeps it."""
    return key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)


def signed_headers(key: ec.EllipticCurvePrivateKey) -> dict[str, bytes]:
    """Return gRPC's headers of a call that a key has signed now."""
    stamp = datetime.now(UTC).isoformat().encode()
    return {
        "flwr-public-key-bin": public_bytes(key),
        "flwr-timestamp": stamp,
        "flwr-signature-bin": key.sign(stamp, ec.ECDSA(SHA256())),
    }


def over_http(headers: Mapping[str, bytes]) -> dict[str, bytes]:
    """Return gRPC's headers as HTTP has them."""
    return {
        name.removesuffix("-bin"): b64encode(value) if name.endswith("-bin") else value
        for name, value in headers.items()
    }


def speaks_tls(address: str, ca: Path | None) -> bool:
    """Return whether a SuperLink shows a certificate that `ca` signed; None: whom all trust."""
    host, _, port = address.rpartition(":")
    trusted = ssl.create_default_context(cafile=ca)
    trusted.set_alpn_protocols(["h2", "http/1.1"])
    try:
        with socket.create_connection((host, int(port)), CALL_SECONDS) as plain:
            trusted.wrap_socket(plain, server_hostname=host).close()
    except ssl.SSLCertVerificationError:
        return False
    return True


def answers_plainly(address: str) -> bool:
    """Return whether a SuperLink answers who speaks without TLS."""
    if OVER_HTTP:
        connection = HTTPConnection(address, timeout=CALL_SECONDS)
        try:
            connection.request("POST", "/v1/fleet/pull-messages", b"")
            return bool(connection.getresponse())
        except (OSError, HTTPException):
            return False
        finally:
            connection.close()
    with grpc.insecure_channel(address) as channel:
        try:
            grpc.channel_ready_future(channel).result(timeout=3)
        except grpc.FutureTimeoutError:
            return False
    return True


def why_unsigned_is_refused(address: str, ca: Path, method: str) -> str:
    """Call a method without a key; return why it is refused, by gRPC's name, "" if it is not."""
    caller = Caller(address, ca.read_bytes())
    try:
        caller(method, b"", {})
    except Refused as refused:
        return refused.reason
    finally:
        caller.close()
    return ""


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
        #: Bytes of all requests, and of the answers to :meth:`call`; and its number.
        self.sent = self.received = self.calls = 0
        self._public = public_bytes(private)
        # Calls that may be broken have a connection of their own, which is ended now and then.
        self._open = partial(Caller, address, ca.read_bytes())
        self._caller, self._raw, self._raw_calls = self._open(), self._open(), 0
        request = fleet.ActivateNodeRequest(
            public_key=claims or self._public, heartbeat_interval=HEARTBEAT
        )
        self.node = Node(node_id=self.call("ActivateNode", request).node_id)
        self._closed = threading.Event()
        threading.Thread(target=self._beat, daemon=True).start()

    def call(self, method: str, request: Any) -> Any:
        """Call one of the fleet's methods; raises Refused."""
        self.sent += request.ByteSize()
        self.calls += 1
        answer = self._caller(method, request.SerializeToString(), self.signed())
        self.received += len(answer)
        return GetMessageClass(METHODS[method].output_type).FromString(answer)

    def call_raw(self, method: str, data: bytes) -> bytes:
        """Call a method with bytes that may be no request; raises as :meth:`call`."""
        self.sent += len(data)
        self._raw_calls += 1
        if self._raw_calls % CALLS_EACH == 0:
            self._raw.close()
            self._raw = self._open()
        return self._raw(method, data, self.signed())

    def signed(self) -> dict[str, bytes]:
        """Return the headers of one more call."""
        return signed_headers(self._key)

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
        self._caller.close()

    def _beat(self) -> None:
        while not self._closed.wait(BEAT):
            request = SendNodeHeartbeatRequest(node=self.node, heartbeat_interval=HEARTBEAT)
            with suppress(Refused):  # the next one may come through
                self.call("SendNodeHeartbeat", request)
