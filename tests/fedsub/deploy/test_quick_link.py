"""A database that is asked for less gives the same answers: no message is lost, no key let in."""

import sqlite3
import threading
import time
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from flwr.common.constant import Status, SubStatus
from flwr.server.superlink.linkstate import LinkStateFactory, linkstate_factory
from flwr.supercore import sql_mixin
from flwr.supercore.corestate import sql_corestate
from flwr.supercore.date import now
from flwr.supercore.object_store import ObjectStoreFactory
from flwr.superlink.federation import NoOpFederationManager
from sqlalchemy.exc import OperationalError

from fedsub.deploy import quick_link
from fedsub.deploy.quick_link import INDICES, QuickLinkState, wait_for_locks
from fedsub_core.errors import RunError
from fedsub_core.flower.linkstate import SqlLinkState, replace_state

from .link_messages import going_run, send, took

# Flower's migrations of its database are set up as Alembic used to want it.
pytestmark = pytest.mark.filterwarnings("ignore:No path_separator:DeprecationWarning")
OWNER = "owner"


@pytest.fixture
def link(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    """Make the state of a SuperLink whose database waits as ours does, or for so many seconds."""
    for name in ("SQLITE_PRAGMAS", "create_engine"):
        monkeypatch.setattr(sql_mixin, name, getattr(sql_mixin, name))

    def make(seconds: int = quick_link.LOCK_SECONDS) -> Any:
        monkeypatch.setattr(quick_link, "LOCK_SECONDS", seconds)
        wait_for_locks()
        database, federations = str(tmp_path / "link.db"), NoOpFederationManager()
        return LinkStateFactory(database, federations, ObjectStoreFactory(database)).state()

    monkeypatch.setattr(linkstate_factory, "SqlLinkState", SqlLinkState)
    replace_state(SqlLinkState, QuickLinkState)
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


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The time of what is held, which only a test moves."""
    now = [1000.0]

    class Clock:
        monotonic = staticmethod(lambda: now[0])

    monkeypatch.setattr(quick_link, "time", Clock)
    return now


@pytest.fixture
def running(link: Any, clock: list[float]) -> tuple[QuickLinkState, int, list[int]]:
    """A state with a run that goes on, and two nodes that are there."""
    state = link()
    nodes = [state.create_node(OWNER, "its name", key, 30.0) for key in (b"key 0", b"key 1")]
    assert all(state.activate_node(node, 30.0) for node in nodes)
    return state, going_run(state), nodes


def test_a_message_is_found_however_often_none_was(running: Any) -> None:
    state, run, (node, other) = running
    for text in ("a", "b", "c"):
        assert took(state, node) == took(state, node) == took(state, other) == []
        sent = send(state, run, node, text)
        assert took(state, other) == []
        assert took(state, node) == [sent]
    # A second one waits behind the first.
    both = {send(state, run, node, text) for text in ("d", "e")}
    assert {*took(state, node), *took(state, node)} == both and took(state, node) == []


def test_a_look_without_messages_asks_the_database_once(
    running: Any, clock: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    state, _, (node, _) = running
    asked = list[int]()
    claim = SqlLinkState._claim_message_ins_rows

    def counted(self: Any, node_id: int, *more: Any) -> Any:
        asked.append(node_id)
        return claim(self, node_id, *more)

    monkeypatch.setattr(SqlLinkState, "_claim_message_ins_rows", counted)
    for _ in range(5):
        assert took(state, node) == []
    assert asked == [node]
    # What another program writes into the file is found, too, if later.
    clock[0] += quick_link.NOTE_SECONDS
    assert took(state, node) == [] and asked == [node, node]


def test_a_message_stored_during_a_look_is_found_by_the_next(
    running: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The look has read that there is none; the message is stored; the look notes what it read."""
    state, run, (node, _) = running
    claim, sent = SqlLinkState._claim_message_ins_rows, list[str]()

    def late(self: Any, *asked: Any) -> Any:
        rows = claim(self, *asked)
        monkeypatch.setattr(SqlLinkState, "_claim_message_ins_rows", claim)
        thread = threading.Thread(target=lambda: sent.append(send(state, run, node, "late")))
        thread.start()
        thread.join(0.5)  # it may have to wait for this look's transaction
        threads.append(thread)
        return rows

    threads = list[threading.Thread]()
    monkeypatch.setattr(SqlLinkState, "_claim_message_ins_rows", late)
    assert took(state, node) == []
    threads[0].join()
    assert took(state, node) == sent != []


def test_a_withdrawn_message_hides_no_other(running: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A look that claims a message of which nothing is left brings none; the next brings more."""
    state, run, (node, _) = running
    send(state, run, node, "first")
    second = send(state, run, node, "second")
    check = SqlLinkState._check_stored_messages

    def withdrawn(self: Any, ids: set[str], *more: Any) -> None:
        monkeypatch.setattr(SqlLinkState, "_check_stored_messages", check)
        self.delete_messages(ids)

    monkeypatch.setattr(SqlLinkState, "_check_stored_messages", withdrawn)
    assert took(state, node) == []
    assert took(state, node) == [second]


def test_what_was_stored_outlives_a_kill(running: Any, link: Any) -> None:
    """What is held in memory is nothing that was promised: a second state has all of it."""
    state, run, (node, other) = running
    assert took(state, node) == []
    sent = send(state, run, node, "a")
    state.store_traffic(run, bytes_sent=1, bytes_recv=2)
    after = link()  # as after a kill: the first one writes nothing more
    assert took(after, node) == [sent] and took(after, other) == []
    assert after.get_node_id_by_public_key(b"key 0") == node
    assert after.get_run_status({run})[run].status == Status.RUNNING


def test_a_revoked_key_is_refused_at_once_and_elsewhere_within_seconds(
    running: Any, clock: list[float], link: Any
) -> None:
    state, _, (node, other) = running
    assert state.get_node_id_by_public_key(b"key 0") == node
    assert state.get_node_id_by_public_key(b"key 1") == other
    state.delete_node(OWNER, node)
    assert state.get_node_id_by_public_key(b"key 0") is None
    assert state.get_node_id_by_public_key(b"key 1") == other
    link().delete_node(OWNER, other)  # by another program with the same file
    clock[0] += quick_link.KEY_SECONDS
    assert state.get_node_id_by_public_key(b"key 1") is None


def test_an_unknown_key_is_never_remembered_as_unknown(running: Any) -> None:
    state, *_ = running
    assert state.get_node_id_by_public_key(b"new") is None
    node = state.create_node(OWNER, "its name", b"new", 30.0)
    assert state.get_node_id_by_public_key(b"new") == node


def test_a_run_that_ends_is_known_to_have_ended_at_once(running: Any) -> None:
    state, run, _ = running
    assert state.get_run_status({run})[run].status == Status.RUNNING
    task = state.get_run_info(run_ids=[run])[0].primary_task_id
    assert state.finish_task(task, SubStatus.COMPLETED, "")
    assert state.get_run_status({run})[run].status == Status.FINISHED


def test_a_run_that_nobody_hears_of_ends_a_moment_later_at_most(
    running: Any, clock: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    state, run, _ = running
    assert state.get_run_status({run})[run].status == Status.RUNNING
    monkeypatch.setattr(sql_corestate, "now", lambda: now() + timedelta(hours=1))
    clock[0] += quick_link.MOMENT
    assert state.get_run_status({run})[run].status == Status.FINISHED


def test_bytes_are_summed_and_seen_by_who_asks(running: Any, clock: list[float]) -> None:
    state, run, _ = running
    for _ in range(10):
        state.store_traffic(run, bytes_sent=3, bytes_recv=5)
    found = state.get_run_info(run_ids=[run])[0]
    assert (found.bytes_sent, found.bytes_recv) == (30, 50)
    for sent, received in ((-1, 5), (0, 0)):
        with pytest.raises(ValueError):
            state.store_traffic(run, bytes_sent=sent, bytes_recv=received)
    found = state.get_run_info(run_ids=[run])[0]
    assert (found.bytes_sent, found.bytes_recv) == (30, 50)
    clock[0] += quick_link.MOMENT
    state.store_traffic(run, bytes_sent=1, bytes_recv=1)
    state.store_traffic(run + 1, bytes_sent=1, bytes_recv=1)  # of a run that is gone
    found = state.get_run_info(run_ids=[run])[0]
    assert (found.bytes_sent, found.bytes_recv) == (31, 51)


def test_the_indices_are_there_and_used(running: Any) -> None:
    state, *_ = running
    for table, column in INDICES.items():
        plan = state.query(f"EXPLAIN QUERY PLAN SELECT * FROM {table} WHERE {column} = 'a'")
        assert f"fedsub_{table}_{column}" in plan[0]["detail"]


def test_a_flower_without_what_is_replaced_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(SqlLinkState, "_claim_message_ins_rows")
    with pytest.raises(RunError, match="no _claim_message_ins_rows to replace"):
        replace_state(SqlLinkState, QuickLinkState)
