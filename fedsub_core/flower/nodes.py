"""The devices that a SuperLink knows, where its application runs: read, and registered."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from flwr.common.constant import HEARTBEAT_DEFAULT_INTERVAL, NOOP_ACCOUNT_NAME, NOOP_FLWR_AID
from flwr.supercore.constant import NodeStatus


@dataclass(frozen=True)
class RegisteredNode:
    """A device's key, with the name under which it was registered; "" for none."""

    node: int
    name: str
    key: bytes
    revoked: bool


class LinkNodes:
    """A SuperLink's devices, as its state has them.

    Parameters
    ----------
    state : returns that state.
    """

    def __init__(self, state: Callable[[], Any]) -> None:
        self._state = state

    def read(self) -> list[RegisteredNode]:
        """Return all that were ever registered."""
        return [
            RegisteredNode(
                one.node_id, one.name, one.public_key, one.status == NodeStatus.UNREGISTERED
            )
            for one in self._state().get_node_info()
        ]

    def add(self, name: str, key: bytes) -> int:
        """Register a key as `flwr supernode register` does, and return its node's id.

        Raises ValueError if the key is known. Raises RuntimeError if Flower did not register it.
        """
        added = self._state().create_node(
            owner_aid=NOOP_FLWR_AID,
            owner_name=NOOP_ACCOUNT_NAME,
            public_key=key,
            heartbeat_interval=HEARTBEAT_DEFAULT_INTERVAL,
            name=name,
        )
        if not added:  # Flower drew an id that is there: the same request may come again
            raise RuntimeError("flwr: got no node, expected one")
        return int(added)
