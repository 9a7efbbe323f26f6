"""Flower's SuperNode: its state, where that is made, its loop, its command; and its ClientApp.

The same in 1.39 and in 1.42, but for the name by which the loop asks its state for messages.
"""

from __future__ import annotations

from typing import Any

from flwr.common.constant import Status, SubStatus
from flwr.proto.task_pb2 import Task
from flwr.supercore.constant import TaskType
from flwr.supernode.cli.flower_supernode import flower_supernode
from flwr.supernode.nodestate.in_memory_nodestate import (
    CLIENT_APP_CRASHED_ERROR,
    InMemoryNodeState,
)

from fedsub_core.flower.modules import flower_module

__all__ = [
    "CLIENT_APP_CRASHED_ERROR",
    "InMemoryNodeState",
    "Status",
    "SubStatus",
    "Task",
    "TaskType",
    "flower_supernode",
    "grpc_calls",
    "grpc_starts",
    "loop",
    "state_factory",
]


def loop(*names: str) -> Any:
    """Return the module that looks for messages; raises as :func:`flower_module`."""
    return flower_module("flwr.supernode.start_client_internal", "time", *names)


def state_factory() -> Any:
    """Return the module that makes the state; raises as :func:`flower_module`."""
    return flower_module("flwr.supernode.nodestate.nodestate_factory", "InMemoryNodeState")


def grpc_calls(*names: str) -> Any:
    """Return 1.39's module that calls a SuperLink over gRPC; raises as :func:`flower_module`."""
    return flower_module("flwr.client.grpc_rere_client.connection", *names)


def grpc_starts(*names: str) -> Any:
    """Return 1.39's module that says how often it calls; raises as :func:`flower_module`."""
    return flower_module("flwr.supernode.start_client_internal", *names)
