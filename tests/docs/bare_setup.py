"""Sets the bare device up: its app in a folder, its person's data, and a Grid around apps."""

import shutil
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
from flwr.app import Context, Error, Message, RecordDict
from flwr.clientapp import ClientApp
from flwr.common.constant import ErrorCode
from flwr.serverapp import Grid
from flwr.supercore.run import Run
from flwr.supercore.task_identity import TaskIdentity
from grpc_tools import protoc

from fedsub_client.split_client import split_client
from fedsub_core.config.run_config import RunConfig, to_flat
from fedsub_core.data.card import Card
from fedsub_core.data.client_data import ClientData
from fedsub_core.data.federation import Federation
from fedsub_core.version import VERSION

BARE = Path(__file__).with_name("bare_device")
PROTO = Path(__file__).resolve().parents[2] / "proto"
#: Its schemas: FedSub's, and what it needs of Flower's.
SCHEMAS = {"exchange": PROTO / "fedsub" / "v2", "fleet": PROTO / "flower"}


def install(folder: Path, package: str) -> None:
    """Copy the bare device into `folder` as a package, with what it makes of the schema."""
    target = folder / package
    shutil.copytree(BARE, target, ignore=shutil.ignore_patterns("__pycache__"))
    for name, place in SCHEMAS.items():
        made = f"--descriptor_set_out={target / name}.desc"
        assert protoc.main(["protoc", f"-I{place}", made, f"{name}.proto"]) == 0


def people(count: int = 3, samples: int = 9) -> Federation:
    """Return a federation of people with more or less data; the last one lacks a class."""
    stream, clients = np.random.default_rng(5), {}
    for i in range(count):
        y = np.tile(np.arange(3 if i + 1 < count else 2), samples + i)
        x = stream.normal(size=(len(y), 4)) + 2 * np.eye(3, 4)[y] + stream.normal(size=4)
        clients[f"p{i + 1}"] = ClientData(f"p{i + 1}", x.astype(np.float32), y)
    card = Card("people", "a test", ("sit", "walk", "run"), ("a", "b", "c", "d"))
    return Federation(card, clients)


def write_own_data(folder: Path, config: RunConfig, federation: Federation, client: str) -> None:
    """Write one person's samples as the bare device reads them, split as our device splits."""
    parts = split_client(federation.clients[client], federation.card, config.split_settings)
    names = ("train_x", "train_y", "test_x", "test_y")
    arrays = {name: getattr(parts, name) for name in names}
    folder.mkdir(parents=True, exist_ok=True)
    np.savez(folder / "own.npz", **arrays, classes=np.array(federation.card.classes))


def node_config(client: str, folder: Path, joined: bool = True) -> dict[str, Any]:
    """Return what a SuperNode of the bare device is configured with."""
    return {"client-id": client, "data": str(folder), "version": VERSION, "joined": joined}


@dataclass
class Node:
    """A ClientApp and what Flower keeps for it."""

    app: ClientApp
    context: Context


class AppGrid(Grid):
    """Flower's Grid around ClientApps in this process; what goes over it is noted.

    Parameters
    ----------
    nodes : by node id.
    """

    def __init__(self, nodes: Mapping[int, Node]) -> None:
        self.nodes = dict(nodes)
        #: Of each message: node, type, group, records; and records of the reply, or its error.
        self.seen: list[tuple[int, str, str, set[str], set[str] | str]] = []
        self._replies: dict[str, Message] = {}
        self._ids = count(1)
        TaskIdentity.run_id, TaskIdentity.task_id, TaskIdentity.node_id = 0, 0, 0

    def set_run(self, run: Run) -> None:
        """Do nothing."""

    @property
    def run(self) -> Run:
        return Run.create_empty(0)

    def create_message(self, *_: Any, **__: Any) -> Message:
        raise NotImplementedError

    def send_and_receive(
        self, messages: Iterable[Message], *, timeout: float | None = None
    ) -> Iterable[Message]:
        raise NotImplementedError

    def get_node_ids(self) -> Iterable[int]:
        return list(self.nodes)

    def push_messages(self, messages: Iterable[Message]) -> Iterable[str]:
        """Let each node answer."""
        ids = []
        for message in messages:
            message.metadata.__dict__["_message_id"] = f"message-{next(self._ids)}"
            ids.append(message.metadata.message_id)
            self._replies[ids[-1]] = self._answer(message)
        return ids

    def pull_messages(self, message_ids: Iterable[str]) -> Iterable[Message]:
        return [self._replies.pop(i) for i in message_ids if i in self._replies]

    def _answer(self, message: Message) -> Message:
        told, node = message.metadata, self.nodes[message.metadata.dst_node_id]
        said: set[str] | str
        try:
            reply = node.app(message, node.context)
            said = set(reply.content)
        except Exception as error:  # as a SuperNode does
            raised = Error(ErrorCode.CLIENT_APP_RAISED_EXCEPTION, str(error))
            reply, said = Message(raised, reply_to=message), str(error)
        sent = set(message.content)
        self.seen.append((told.dst_node_id, told.message_type, told.group_id, sent, said))
        return reply


def node(app: ClientApp, config: RunConfig, settings: dict[str, Any], number: int) -> Node:
    """Return a node that runs `app`."""
    flat: Any = to_flat(config)
    return Node(app, Context(0, number, settings, RecordDict(), flat))
