"""The fleet's wire over HTTP: signed calls, objects, messages. Nothing of Flower's is imported."""

import json
import ssl
import time
from base64 import b64encode
from collections.abc import Mapping
from datetime import UTC, datetime
from hashlib import sha256
from http.client import HTTPException, HTTPSConnection
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    PublicFormat,
    load_ssh_private_key,
)
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

SCHEMA = Path(__file__).with_name("fleet.desc").read_bytes()
POOL: Any = descriptor_pool.DescriptorPool()
for _file in descriptor_pb2.FileDescriptorSet.FromString(SCHEMA).file:
    POOL.AddSerializedFile(_file.SerializeToString())
HEARTBEAT, MOST_PAUSE = 30.0, 20.0
LISTS = {int: "sint_list", float: "double_list", str: "string_list", bytes: "bytes_list"}
VALUES = {bool: "bool", int: "sint64", float: "double", str: "string", bytes: "bytes"}


def made(name: str, **fields: Any) -> Any:
    """Return a message of Flower's schema."""
    descriptor = POOL.FindMessageTypeByName(f"flwr.proto.{name}")
    return message_factory.GetMessageClass(descriptor)(**fields)


class RunEnded(Exception):
    """The run of a message goes on no more."""


class Fleet:
    """A node of a SuperLink at `address`, whose certificate `ca` signed, with its own key."""

    def __init__(self, address: str, ca: Path, key: Path) -> None:
        self.address, self.trusted = address, ssl.create_default_context(cafile=str(ca))
        private = load_ssh_private_key(key.read_bytes(), None)
        assert isinstance(private, ec.EllipticCurvePrivateKey)
        self.key = private
        form = Encoding.PEM, PublicFormat.SubjectPublicKeyInfo
        self.pem = private.public_key().public_bytes(*form)
        self.node = made("Node")
        told = self.call("activate-node", "ActivateNode", public_key=self.pem, beat=True)
        self.node = made("Node", node_id=told.node_id)
        self.beat_at = 0.0

    def call(self, path: str, name: str, beat: bool = False, **fields: Any) -> Any:
        """Return the answer to a call, which is tried again while the SuperLink is away."""
        if beat:
            fields["heartbeat_interval"] = HEARTBEAT
        body, pause = made(f"{name}Request", **fields).SerializeToString(), 1.0
        while True:
            status, got = self.post(f"/v1/fleet/{path}", body)
            if status == 200:
                return made(f"{name}Response").FromString(got)
            if status == 403 and b"2007" in got:
                raise RunEnded(got)
            # 412: the node may still count as here, from before it was started again.
            if status not in (0, 408, 412, 429) and status < 500:
                raise RuntimeError(f"{path}: {status} {got!r}")
            time.sleep(pause)
            pause = min(2 * pause, MOST_PAUSE)

    def post(self, path: str, body: bytes) -> tuple[int, bytes]:
        """Return status and body of an answer; 0: there is none."""
        stamp = datetime.now(UTC).isoformat()
        signature = self.key.sign(stamp.encode(), ec.ECDSA(SHA256()))
        headers = {"content-type": "application/protobuf", "flwr-timestamp": stamp}
        headers["flwr-public-key"] = b64encode(self.pem).decode()
        headers["flwr-signature"] = b64encode(signature).decode()
        connection = HTTPSConnection(self.address, timeout=30, context=self.trusted)
        try:
            connection.request("POST", path, body, headers)
            answer = connection.getresponse()
            return answer.status, answer.read()
        except (OSError, HTTPException) as error:
            return 0, str(error).encode()
        finally:
            connection.close()

    def heartbeat(self) -> None:
        """Say that the node is there, if it is time."""
        if time.monotonic() >= self.beat_at:
            self.call("send-node-heartbeat", "SendNodeHeartbeat", beat=True, node=self.node)
            self.beat_at = time.monotonic() + HEARTBEAT / 2

    def receive(self) -> tuple[Any, dict[str, dict[str, Any]]] | None:
        """Return the next message's metadata and its ConfigRecords by name, if there is one."""
        came = self.call("pull-messages", "PullMessages", node=self.node)
        if not came.messages_list:
            return None
        told, records, names = came.messages_list[0].metadata, {}, dict[str, str]()
        todo = [came.message_object_trees[0]]
        while todo:
            tree = todo.pop()
            todo += tree.children
            kind, body = split(self.pull(told.run_id, tree.object_id))
            if kind == "RecordDict":
                names = {identity: name for name, identity in json.loads(body).items()}
            elif kind == "ConfigRecord":
                records[names[tree.object_id]] = read_record(body)
        fields: Any = {"run_id": told.run_id, "message_object_id": told.message_id}
        self.call("confirm-message-received", "ConfirmMessageReceived", node=self.node, **fields)
        return told, records

    def pull(self, run: int, identity: str) -> bytes:
        """Return an object, once all of it is there."""
        while True:
            fields: Any = {"run_id": run, "object_id": identity}
            found = self.call("pull-object", "PullObject", node=self.node, **fields)
            if found.object_available:
                assert sha256(found.object_content).hexdigest() == identity
                return bytes(found.object_content)
            time.sleep(0.2)

    def reply(self, told: Any, records: Mapping[str, Mapping[str, Any]] | None, error: str) -> None:
        """Answer a message with ConfigRecords, or an error."""
        now = time.time()
        metadata = made(
            "Metadata",
            run_id=told.run_id,
            src_node_id=self.node.node_id,
            dst_node_id=told.src_node_id,
            reply_to_message_id=told.message_id,
            group_id=told.group_id,
            ttl=told.created_at + told.ttl - now,
            message_type=told.message_type,
            created_at=now,
        )
        message = made("Message", metadata=metadata)
        if records is None:
            message.error.code, message.error.reason = 2, error
            parts = [thing("Message", message.SerializeToString(), [])]
        else:
            each = {name: thing("ConfigRecord", record(one), []) for name, one in records.items()}
            ids = json.dumps({name: identity for name, (identity, _) in each.items()})
            whole = thing("RecordDict", ids.encode(), [identity for identity, _ in each.values()])
            parts = [*each.values(), whole]
            parts.append(thing("Message", message.SerializeToString(), [whole[0]]))
        tree, told_children = made("ObjectTree", object_id=parts[-1][0]), parts[:-1]
        if told_children:
            below = tree.children.add(object_id=told_children[-1][0])
            for identity, _ in told_children[:-1]:
                below.children.add(object_id=identity)
        message.metadata.message_id = tree.object_id
        if records is not None:
            message.content.SetInParent()
        fields: Any = {"messages_list": [message], "message_object_trees": [tree]}
        asked = self.call("push-messages", "PushMessages", node=self.node, **fields)
        for identity, content in parts:
            if identity in asked.objects_to_push:
                fields = {"run_id": told.run_id, "object_id": identity, "object_content": content}
                fields["session_id"] = asked.session_id
                self.call("push-object", "PushObject", node=self.node, **fields)


def thing(kind: str, body: bytes, children: list[str]) -> tuple[str, bytes]:
    """Return an object's id and its bytes."""
    content = f"{kind} {','.join(children)} {len(body)}".encode() + b"\0" + body
    return sha256(content).hexdigest(), content


def split(content: bytes) -> tuple[str, bytes]:
    """Return an object's kind and body."""
    head, _, body = content.partition(b"\0")
    return head.split(b" ")[0].decode(), body


def record(values: Mapping[str, Any]) -> bytes:
    """Return a ConfigRecord."""
    written = made("ConfigRecord")
    for key, value in values.items():
        item = written.items.add(key=key).value
        if isinstance(value, list):
            getattr(item, LISTS[type(value[0]) if value else int]).vals.extend(value)
        else:
            setattr(item, VALUES[type(value)], value)
    return bytes(written.SerializeToString())


def read_record(body: bytes) -> dict[str, Any]:
    """Inverse of :func:`record`."""
    found = {}
    for item in made("ConfigRecord").FromString(body).items:
        if (kind := item.value.WhichOneof("value")) is not None:
            value = getattr(item.value, kind)
            found[item.key] = list(value.vals) if kind.endswith("_list") else value
    return found
