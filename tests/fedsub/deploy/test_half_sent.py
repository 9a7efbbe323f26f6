"""Calls that are begun and never ended, and connections that say nothing, keep nobody out.

Over gRPC or HTTP, as the Flower that is installed has it; over TLS, on loopback.
"""

import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
from flwr.proto.fleet_pb2 import PullMessagesRequest
from flwr.proto.node_pb2 import Node

from fedsub.deploy import connections, relay
from fedsub.deploy.callers import CALLS_EACH

from .fleet_api import Fleet
from .raw_device.connection import OVER_HTTP, Connection, Refused
from .raw_device.half_sent import connect, half_sent, is_closed

# Flower's migrations of its database are set up as Alembic used to want it.
pytestmark = pytest.mark.filterwarnings("ignore:No path_separator:DeprecationWarning")

#: On one connection, which is more than Flower has workers.
CALLS = 1_100
PATIENCE = 60.0


@pytest.fixture
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have all that is waited for be waited for briefly, and strangers have 8 connections."""
    monkeypatch.setattr(connections, "PROOF_SECONDS", 3.0)
    monkeypatch.setattr(connections, "STALL_SECONDS", 1.0)
    monkeypatch.setattr(connections, "UNPROVEN_EACH", 8)
    monkeypatch.setattr(relay, "LOOK_SECONDS", 0.1)


def pull(device: Connection) -> Any:
    node = Node(node_id=device.node.node_id)
    return device.call("PullMessages", PullMessagesRequest(node=node))


@contextmanager
def all_closed(held: list[Any]) -> Iterator[None]:
    """Close connections in the end."""
    try:
        yield
    finally:
        for one in held:
            one.close()


def ca(fleet: Fleet) -> Path:
    return fleet.folder / "ca.crt"


def test_a_strangers_half_sent_calls_keep_nobody_out(fleet: Fleet) -> None:
    fleet.register("anna")
    threads = threading.active_count()
    held = [half_sent(fleet.address, ca(fleet), CALLS) for _ in range(11)]
    with all_closed(held):
        anna = fleet.connect("anna")
        assert fleet.online() == {anna.node.node_id}
        pull(anna)
        assert threading.active_count() < threads + 64
        assert all(is_closed(one, PATIENCE) for one in held)
        pull(anna)


@pytest.mark.usefixtures("hasty")
def test_bare_connections_end_and_the_oldest_make_room(hasty: None, fleet: Fleet) -> None:
    fleet.register("anna")
    held = [connect(fleet.address, ca(fleet)) for _ in range(40)]
    with all_closed(held):
        assert all(is_closed(one, PATIENCE) for one in held[:24])
        anna = fleet.connect("anna")
        assert all(is_closed(one, PATIENCE) for one in held)
        # Whoever has signed a call has proven who it is, and stays.
        pull(anna)


@pytest.mark.usefixtures("hasty")
def test_a_device_that_ends_no_call_keeps_out_itself_alone(hasty: None, fleet: Fleet) -> None:
    """It is registered, and signs each call anew."""
    fleet.register("anna")
    fleet.register("ben")
    anna, ben = fleet.connect("anna"), fleet.connect("ben")
    threads, each = threading.active_count(), 1 if OVER_HTTP else CALLS_EACH + 40
    held = []
    for _ in range(CALLS_EACH + 40 if OVER_HTTP else 1):
        held.append(half_sent(fleet.address, ca(fleet), each, ben.signed))
    with all_closed(held):
        pull(anna)
        assert threading.active_count() < threads + 64
        assert all(is_closed(one, PATIENCE) for one in held)
        pull(anna)
    # Its half calls have ended, and so it may call again.
    until = time.monotonic() + PATIENCE
    while True:
        try:
            pull(ben)
            break
        except Refused as refused:
            assert refused.reason in ("UNAVAILABLE", "HTTP 503") and time.monotonic() < until
            time.sleep(0.1)


def test_a_signature_is_good_for_one_call(fleet: Fleet, monkeypatch: pytest.MonkeyPatch) -> None:
    fleet.register("anna")
    anna = fleet.connect("anna")
    headers = anna.signed()
    monkeypatch.setattr(anna, "signed", lambda: headers)
    pull(anna)
    with pytest.raises(Refused, match="got one that another call came with"):
        pull(anna)
    monkeypatch.undo()
    pull(anna)


def test_what_does_not_come_through_the_port_is_not_answered(fleet: Fleet) -> None:
    """Others on the server's machine reach what stands behind the port."""
    fleet.register("anna")
    with closing(connect(fleet.address, ca(fleet))):
        pass
    behind = f"127.0.0.1:{fleet.behind}"
    with pytest.raises(Refused, match="did not come through"):
        Connection(behind, ca(fleet), fleet.key("anna"))
