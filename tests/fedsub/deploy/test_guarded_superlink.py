"""What a device may announce has bounds, what devices need passes, and a write waits its turn."""

from __future__ import annotations

import sqlite3
import threading
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import grpc
import pytest
from flwr.proto.fleet_pb2 import PushMessagesRequest
from flwr.proto.message_pb2 import ObjectTree
from flwr.proto.node_pb2 import Node
from flwr.server.superlink.fleet.grpc_rere.fleet_servicer import FleetServicer
from flwr.server.superlink.linkstate import LinkStateFactory
from flwr.supercore import sql_mixin
from flwr.supercore.object_store import ObjectStoreFactory
from flwr.superlink.federation import NoOpFederationManager
from sqlalchemy.exc import OperationalError

from fedsub.deploy import guarded_superlink
from fedsub.deploy.guarded_superlink import (
    LOCK_SECONDS,
    MOST_OBJECTS,
    OBJECTS_A_SECOND,
    Allowance,
    GuardedServicer,
    count_objects,
    wait_for_locks,
)
from fedsub.testing.refusals import refused
from fedsub_core.errors import RunError

# Flower's migrations of its database are set up as Alembic used to want it.
pytestmark = pytest.mark.filterwarnings("ignore:No path_separator:DeprecationWarning")


class Aborted(Exception):
    """What gRPC raises where a call is refused."""


class Call:
    """The context of a call."""

    def abort(self, code: grpc.StatusCode, said: str) -> None:
        raise Aborted(code.name, said)


@pytest.fixture
def servicer(monkeypatch: pytest.MonkeyPatch) -> GuardedServicer:
    """Return the guard before a SuperLink that takes everything."""
    monkeypatch.setattr(FleetServicer, "PushMessages", lambda self, request, context: "taken")
    nothing: Any = None
    return GuardedServicer(nothing, nothing, enable_supernode_auth=True)


def request(objects: int, node: int = 7) -> PushMessagesRequest:
    """A reply of so many objects: a message, and in it chunks."""
    chunks = [ObjectTree(object_id=str(i)) for i in range(objects - 1)]
    tree = ObjectTree(object_id="message", children=chunks)
    return PushMessagesRequest(node=Node(node_id=node), message_object_trees=[tree])


def test_a_reply_passes_and_one_of_too_many_objects_does_not(servicer: GuardedServicer) -> None:
    assert servicer.PushMessages(request(60), Call()) == "taken"
    with refused(Aborted, "node 7", got=MOST_OBJECTS):
        servicer.PushMessages(request(30_000), Call())
    # It is refused for what it is, and costs its sender nothing of what it may announce.
    assert servicer.PushMessages(request(60), Call()) == "taken"


def test_who_announces_over_and_over_is_refused_and_the_others_are_not(
    servicer: GuardedServicer,
) -> None:
    assert servicer.PushMessages(request(MOST_OBJECTS), Call()) == "taken"
    with pytest.raises(Aborted, match="RESOURCE_EXHAUSTED"):
        servicer.PushMessages(request(600), Call())
    assert servicer.PushMessages(request(600, node=8), Call()) == "taken"


def test_an_allowance_grows_back() -> None:
    now = [0.0]
    allowance = Allowance(lambda: now[0])
    assert allowance.spend(7, MOST_OBJECTS) and not allowance.spend(7, 50)
    now[0] = 50 / OBJECTS_A_SECOND
    assert allowance.spend(7, 50) and not allowance.spend(7, 1)
    now[0] = 1e6
    assert not allowance.spend(7, MOST_OBJECTS + 1) and allowance.spend(7, MOST_OBJECTS)


def test_objects_are_counted_in_all_trees_and_no_further_than_they_matter() -> None:
    assert count_objects([], 10) == 0
    nested = ObjectTree(object_id="a", children=[ObjectTree(object_id="b")])
    assert count_objects([nested, nested], 10) == 4
    assert count_objects(request(30_000).message_object_trees, 10) == 11


@pytest.fixture
def link(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    """Make the state of a SuperLink whose database waits as ours does, or for so many seconds."""
    for name in ("SQLITE_PRAGMAS", "create_engine"):
        monkeypatch.setattr(sql_mixin, name, getattr(sql_mixin, name))

    def make(seconds: int = LOCK_SECONDS) -> Any:
        monkeypatch.setattr(guarded_superlink, "LOCK_SECONDS", seconds)
        wait_for_locks()
        database, federations = str(tmp_path / "link.db"), NoOpFederationManager()
        return LinkStateFactory(database, federations, ObjectStoreFactory(database)).state()

    return make


def register(state: Any) -> Any:
    """Have the state write."""
    return state.create_node("owner", "its name", b"a public key", 30.0)


def test_both_waits_are_ours_and_end(link: Any, tmp_path: Path) -> None:
    state = link(1)
    assert state.query("PRAGMA busy_timeout") == [{"timeout": 1000}]
    assert state._engine.pool.timeout() == 1
    with closing(sqlite3.connect(tmp_path / "link.db", isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(OperationalError, match="database is locked"):
            register(state)


@pytest.mark.slow
def test_a_write_waits_longer_than_flowers_five_seconds(link: Any, tmp_path: Path) -> None:
    state, held = link(), 7.0
    with closing(
        sqlite3.connect(tmp_path / "link.db", isolation_level=None, check_same_thread=False)
    ) as other:
        other.execute("BEGIN IMMEDIATE")
        end = threading.Timer(held, other.execute, ["COMMIT"])
        end.start()
        begun = time.monotonic()
        node = register(state)
        assert time.monotonic() - begun > 5.5
        end.join()
        assert node in {row.node_id for row in state.get_node_info()}


@pytest.mark.parametrize(
    ("name", "moved", "said"),
    [
        ("SQLITE_PRAGMAS", (("journal_mode", "WAL"),), "without a busy_timeout"),
        ("create_engine", None, "has no create_engine to replace"),
    ],
)
def test_a_flower_that_opens_its_database_otherwise_is_refused(
    monkeypatch: pytest.MonkeyPatch, name: str, moved: Any, said: str
) -> None:
    if moved is None:
        monkeypatch.delattr(sql_mixin, name)
    else:
        monkeypatch.setattr(sql_mixin, name, moved)
    with pytest.raises(RunError, match=said):
        wait_for_locks()
