"""What a SuperLink says of its nodes and runs to whoever reaches its port for runs.

The same in 1.39 and in 1.42. It asks for no account unless it was set up to.
"""

from __future__ import annotations

import ssl
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime

from flwr.common.constant import HEARTBEAT_PATIENCE
from flwr.proto.control_pb2 import (
    ListNodesRequest,
    ListRunsRequest,
    StopRunRequest,
    UnregisterNodeRequest,
)
from flwr.proto.node_pb2 import NodeInfo
from flwr.supercore.control import ControlHttpClient
from flwr.supercore.interceptors import RuntimeVersionHttpInterceptor

from fedsub_core.errors import RunError, cut

#: Of a SuperLink's runs the newest are asked for.
MOST_RUNS = 10


@dataclass(frozen=True)
class LinkNode:
    """A registered node.

    Parameters
    ----------
    status : Flower's: ``registered`` (it never came), ``online``, ``offline``, ``unregistered``.
    activated, deactivated : when it was let in last, and when it left or was no longer heard of;
        as Flower writes it, "" for never.
    heard : seconds since it was heard of last; None of one that is not online.
    every : seconds between two of its heartbeats at most.
    """

    node: int
    name: str
    status: str
    activated: str
    deactivated: str
    heard: float | None
    every: float


@dataclass(frozen=True)
class LinkRun:
    """A run that was submitted.

    Parameters
    ----------
    status : Flower's, such as ``running`` or ``finished:completed``.
    details : why it failed, if it says so.
    submitted, finished : when, as Flower writes it; "" for not yet.
    bytes_up, bytes_down : devices sent and were sent so far.
    folder : the run's, where it was given when the run was submitted.
    """

    run: int
    status: str
    details: str
    submitted: str
    finished: str
    bytes_up: int
    bytes_down: int
    folder: str = ""


def ask_superlink(
    address: str, ca: bytes | None, most: int = MOST_RUNS
) -> tuple[Sequence[LinkNode], Sequence[LinkRun]]:
    """Return the nodes of a SuperLink by name, and its runs, the newest first.

    Parameters
    ----------
    address : host and port at which it takes runs.
    ca : the authority that signed its certificate, PEM; None: whom this machine trusts.
    most : runs that are asked for.

    Raises RunError if none answers there within half a minute, or it answers with an error.
    """
    with _asked(address, ca) as client:
        nodes = client.ListNodes(ListNodesRequest())
        runs = client.ListRuns(ListRunsRequest(limit=most))
    now = datetime.fromisoformat(nodes.now).timestamp()
    known = [_node(one, now) for one in nodes.nodes_info]
    newest = sorted(runs.run_dict.values(), key=lambda run: run.pending_at, reverse=True)
    return sorted(known, key=lambda node: (node.name, node.node)), [
        LinkRun(
            run.run_id,
            ":".join(part for part in (run.status.status, run.status.sub_status) if part),
            run.status.details,
            run.pending_at,
            run.finished_at,
            run.bytes_recv,
            run.bytes_sent,
            run.override_config["folder"].string if "folder" in run.override_config else "",
        )
        for run in newest
    ]


def stop_run(address: str, ca: bytes | None, run: int) -> None:
    """Stop a run of a SuperLink; address, authority and errors are :func:`ask_superlink`'s."""
    with _asked(address, ca) as client:
        client.StopRun(StopRunRequest(run_id=run))


def unregister(address: str, ca: bytes | None, nodes: Iterable[int]) -> None:
    """Unregister nodes of a SuperLink: their keys are refused from now on, for good.

    Parameters
    ----------
    address, ca : as for :func:`ask_superlink`, which says what is raised.
    """
    with _asked(address, ca) as client:
        for node in nodes:
            client.UnregisterNode(UnregisterNodeRequest(node_id=node))


@contextmanager
def _asked(address: str, ca: bytes | None) -> Iterator[ControlHttpClient]:
    """Yield a client of a SuperLink; what fails meanwhile is a RunError."""
    try:
        client = ControlHttpClient.from_server_address(
            server_address=address,
            insecure=False,
            root_certificates=ca,
            interceptors=[RuntimeVersionHttpInterceptor(component_name="flwr CLI")],
        )
    except (ValueError, ssl.SSLError) as error:
        raise RunError(f"{address}: its authority's certificate: {error}; expected PEM") from error
    try:
        yield client
    except Exception as error:  # of the library beneath Flower's client, which is not ours to name
        raise RunError(
            f"{address}: got no answer of a SuperLink's ({cut(error) or type(error).__name__}); "
            "expected HOST:PORT of its --host and --port, and as --ca the ca.crt that signed its "
            "certificate"
        ) from error
    finally:
        client.close()


def _node(one: NodeInfo, now: float) -> LinkNode:
    heard = None
    if one.status == "online":
        # It counts as online until so many heartbeats after the last one.
        heard = now - (one.online_until - HEARTBEAT_PATIENCE * one.heartbeat_interval)
    return LinkNode(
        one.node_id,
        one.name,
        one.status,
        one.last_activated_at,
        one.last_deactivated_at,
        heard,
        one.heartbeat_interval,
    )
