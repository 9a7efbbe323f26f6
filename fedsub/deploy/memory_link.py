"""A SuperLink's state in memory, which keeps its devices in a file.

It answers several times as many calls as one with a database. What it costs: where the process
ends, its runs and messages are gone, and a run has to be started again, from its last finished
round. Devices stay registered, under the ids that they had: they go on when it is back.

Flower's state in memory walks through all messages of everybody at each look for one. Here each
node has a list of its own.
"""

import json
from base64 import b64decode, b64encode
from pathlib import Path
from typing import Any

from fedsub_core.errors import RunError
from fedsub_core.files import lock, private, write_whole
from fedsub_core.flower.linkstate import InMemoryLinkState, NodeInfo, NodeStatus, now

#: What is kept of a device, but for its key.
KEPT = ("node_id", "owner_aid", "owner_name", "registered_at", "unregistered_at", "name")


class KeptNodes:
    """The file of a SuperLink's devices.

    Parameters
    ----------
    path : its owner's alone; made with the first device.

    Raises RunError if another process has it, or its folder is not there.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            # As long as the process lives.
            self._held = open(f"{path}.lock", "ab", opener=private)  # noqa: SIM115
            lock(self._held, wait=False)
        except OSError as error:
            raise RunError(
                f"{path}.lock: {error.strerror}; expected a folder that is there, and no other "
                "SuperLink that keeps its devices in the same file"
            ) from error

    def read(self) -> list[NodeInfo]:
        """Return the devices.

        Raises RunError if the file cannot be read, or is none of such.
        """
        try:
            listed = json.loads(self.path.read_text(encoding="utf-8"))
            return [_node(one) for one in listed["nodes"]]
        except FileNotFoundError:
            return []
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise RunError(
                f"{self.path}: {type(error).__name__}: {error}; expected the devices that "
                "fedsub-superlink --memory has kept; restore the file, or move it away and "
                "register all keys again"
            ) from error

    def write(self, nodes: list[NodeInfo]) -> None:
        """Write the devices; who was answered is in the file, also after a kill.

        Raises RunError if it cannot be written.
        """
        listed = [
            {name: getattr(one, name) for name in KEPT}
            | {"public_key": b64encode(one.public_key).decode()}
            for one in nodes
        ]
        write_whole(self.path, json.dumps({"nodes": listed}).encode())


def _node(said: dict[str, Any]) -> NodeInfo:
    gone = bool(said["unregistered_at"])
    return NodeInfo(
        **{name: said[name] for name in KEPT if said[name]},
        public_key=b64decode(said["public_key"], validate=True),
        status=NodeStatus.UNREGISTERED if gone else NodeStatus.REGISTERED,
    )


class MemoryLinkState(InMemoryLinkState):
    """Flower's state in memory, with its devices in a file and its messages by node."""

    #: What of Flower's is replaced.
    REPLACED = (
        "create_node",
        "delete_node",
        "get_message_ins",
        "store_message_ins",
        "delete_messages",
    )
    #: Where devices are kept; set before it is made, as Flower makes it.
    kept: KeptNodes

    def __init__(self, *arguments: Any, **keys: Any) -> None:
        super().__init__(*arguments, **keys)
        #: By node: messages to it that were not delivered, in the order in which they came.
        self._boxes: dict[int, dict[str, None]] = {}
        for one in self.kept.read():
            self.nodes[one.node_id] = one
            self.node_public_key_to_node_id[one.public_key] = one.node_id
            self.owner_to_node_ids.setdefault(one.owner_aid, set()).add(one.node_id)

    def create_node(self, *arguments: Any, **keys: Any) -> int:
        """Register a key; it is in the file before that is answered."""
        with self.lock:
            node: int = super().create_node(*arguments, **keys)
            try:
                self.kept.write(list(self.nodes.values()))
            except RunError:
                if node:
                    made = self.nodes.pop(node)
                    del self.node_public_key_to_node_id[made.public_key]
                    self.owner_to_node_ids[made.owner_aid].discard(node)
                raise
            return node

    def delete_node(self, owner_aid: str, node_id: int) -> None:
        """Unregister a node; it is refused from now on. Ask again where that was not written."""
        with self.lock:
            try:
                super().delete_node(owner_aid, node_id)
            finally:  # also where it was unregistered before, and that could not be written
                self.kept.write(list(self.nodes.values()))

    def store_message_ins(self, message: Any) -> str | None:
        """Store a message to a node."""
        with self.lock:
            is_new = message.metadata.message_id not in self.message_ins_store
            stored: str | None = super().store_message_ins(message)
            if is_new and stored is not None:
                self._boxes.setdefault(message.metadata.dst_node_id, {})[stored] = None
            return stored

    def get_message_ins(
        self, node_id: int, limit: int | None, *, run_id: int | None = None
    ) -> list[Any]:
        """Return the next messages to a node, the oldest first, and count them as delivered."""
        with self.lock:
            box = self._boxes.get(node_id)
            if not box:
                return []
            self._check_stored_messages(set(box))  # it deletes those that are not valid any more
            waiting = (self.message_ins_store[identity] for identity in box)
            found = [one for one in waiting if run_id in (None, one.metadata.run_id)][:limit]
            delivered_at = now().isoformat()
            for one in found:
                one.metadata.delivered_at = delivered_at
                del box[one.metadata.message_id]
            return found

    def delete_messages(self, message_ins_ids: set[str]) -> None:
        """Delete messages and their replies; none of them waits for its node any more."""
        with self.lock:
            for identity in message_ins_ids:
                if message := self.message_ins_store.get(identity):
                    self._boxes.get(message.metadata.dst_node_id, {}).pop(identity, None)
            super().delete_messages(message_ins_ids)
