"""Flower's link state: what a SuperLink knows of nodes, runs and messages, in a database or memory.

The same in 1.39 and in 1.42, but for what no device calls.
"""

from __future__ import annotations

from typing import Any

from flwr.common.constant import Status
from flwr.proto.node_pb2 import NodeInfo
from flwr.server.superlink.linkstate.in_memory_linkstate import InMemoryLinkState
from flwr.server.superlink.linkstate.sql_linkstate import SqlLinkState
from flwr.supercore.constant import NodeStatus
from flwr.supercore.date import now
from flwr.supercore.run import RunStatus

from fedsub_core.errors import RunError
from fedsub_core.flower.modules import GRPC, HTTP, flower_module

__all__ = [
    "InMemoryLinkState",
    "NodeInfo",
    "NodeStatus",
    "RunStatus",
    "SqlLinkState",
    "Status",
    "add_indices",
    "now",
    "replace_state",
]


def replace_state(flowers: type[Any], ours: type[Any]) -> None:
    """Have SuperLinks that start from now on keep their state in `ours`, made from Flower's.

    Raises RunError if Flower's no longer has something that `ours` replaces.
    """
    for name in ours.REPLACED:
        made = getattr(flowers, name, None)
        if not callable(made) or getattr(made, "__isabstractmethod__", False):
            raise RunError(
                f"flwr: its {flowers.__name__} has no {name} to replace; expected flwr {GRPC} or "
                f"{HTTP}"
            )
    factory = flower_module("flwr.server.superlink.linkstate.linkstate_factory", flowers.__name__)
    setattr(factory, flowers.__name__, ours)


def add_indices(state: SqlLinkState, columns: dict[str, str]) -> None:
    """Add an index to a column of each of these tables, unless it is there."""
    for table, column in columns.items():
        name = f"fedsub_{table}_{column}"
        state.query(f"CREATE INDEX IF NOT EXISTS {name} ON {table} ({column})")
