"""Flower's SuperExec: who starts an app's process, for which task, with which arguments.

The same in 1.39 and in 1.42, but for the module that asks for the executor.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from flwr.proto.runtime_pb2 import SendTaskHeartbeatRequest
from flwr.supercore import log
from flwr.supercore.constant import TASK_TYPE_TO_APPIO_API_ADDRESS_ARG, ExecutorType, TaskType
from flwr.supercore.interceptors import RuntimeTokenHttpInterceptor, RuntimeVersionHttpInterceptor
from flwr.supercore.runtime import RuntimeHttpClient
from flwr.supercore.superexec.executor import ExecutionSpec, LaunchResult, SubprocessExecutor

from fedsub_core.flower.modules import enter_bare, flower_module

__all__ = [
    "TASK_TYPE_TO_APPIO_API_ADDRESS_ARG",
    "ExecutionSpec",
    "ExecutorType",
    "LaunchResult",
    "SubprocessExecutor",
    "TaskType",
    "executors",
    "log",
    "programs",
    "send_heartbeat",
    "superexec_program",
]


def superexec_program() -> Any:
    """Return the module of the program `flower_superexec`; raises as :func:`flower_module`."""
    enter_bare("flwr.supercore.cli")
    return flower_module("flwr.supercore.cli.flower_superexec", "flower_superexec")


def executors() -> Any:
    """Return the module that asks for an executor; raises as :func:`flower_module`."""
    return flower_module("flwr.supercore.superexec.run_superexec", "get_executor")


def programs(*names: str) -> Any:
    """Return the module that starts apps as programs; raises as :func:`flower_module`."""
    return flower_module("flwr.supercore.superexec.executor.subprocess_executor", *names)


def send_heartbeat(spec: ExecutionSpec) -> None:
    """Send the heartbeat of a task, whose app does not run yet, to the SuperNode.

    Raises whatever Flower's or httpx's raise where the SuperNode cannot be reached.
    """
    certificates = spec.root_certificates_path
    client = RuntimeHttpClient.from_server_address(
        server_address=spec.runtime_api_address,
        insecure=spec.insecure,
        root_certificates=None if certificates is None else Path(certificates).read_bytes(),
        interceptors=[
            RuntimeVersionHttpInterceptor(component_name="SuperExec"),
            RuntimeTokenHttpInterceptor(spec.token),
        ],
    )
    try:
        client.SendTaskHeartbeat(SendTaskHeartbeatRequest())
    finally:
        client.close()
