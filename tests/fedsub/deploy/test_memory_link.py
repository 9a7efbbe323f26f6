"""A SuperLink's state in memory keeps its devices, and gives each node its own messages."""

import json
import os
from pathlib import Path
from typing import Any

import pytest
from flwr.app import ConfigRecord, Message, RecordDict
from flwr.common.constant import ErrorCode
from flwr.supercore.object_store import ObjectStoreFactory
from flwr.supercore.task_identity import TaskIdentity
from flwr.superlink.federation import NoOpFederationManager

from fedsub.deploy.memory_link import KeptNodes, MemoryLinkState
from fedsub.deploy.superlink_options import own_options
from fedsub.testing.refusals import refused
from fedsub_core.errors import RunError
from fedsub_core.flower.linkstate import InMemoryLinkState, NodeStatus, replace_state
from fedsub_core.flower.modules import GRPC

from .link_messages import going_run, send, took

OWNER = "owner"


class OneNode(MemoryLinkState):
    """A state whose file a test opens as often as it likes, as after a restart."""


def opened(path: Path) -> Any:
    kept = KeptNodes.__new__(KeptNodes)  # without the lock of a process
    kept.path = path
    OneNode.kept = kept
    return OneNode(NoOpFederationManager(), ObjectStoreFactory().store())


@pytest.fixture
def state(tmp_path: Path) -> Any:
    return opened(tmp_path / "nodes.json")


@pytest.fixture
def run(state: Any) -> int:
    """A run that goes on."""
    return going_run(state)


def register(state: Any, *names: str) -> list[int]:
    made = [state.create_node(OWNER, "x", f"key {n}".encode(), 30.0, name=n) for n in names]
    assert all(state.activate_node(node, 30.0) for node in made)
    return made


def test_devices_outlive_a_restart_under_their_ids(state: Any, tmp_path: Path) -> None:
    anna, ben, cleo = register(state, "anna", "ben", "cleo")
    state.delete_node(OWNER, cleo)
    after = opened(tmp_path / "nodes.json")
    assert after.get_node_id_by_public_key(b"key anna") == anna
    assert {one.name for one in after.get_node_info()} == {"anna", "ben", "cleo"}
    # Who was revoked stays so, and the key is not to be registered again.
    assert after.get_node_id_by_public_key(b"key cleo") is None
    with pytest.raises(ValueError, match="in use"):
        after.create_node(OWNER, "x", b"key cleo", 30.0)
    # A node that knows nothing of the restart goes on: its next heartbeat says that it is there.
    assert after.acknowledge_node_heartbeat(ben, 30.0)
    assert not after.acknowledge_node_heartbeat(cleo, 30.0) and not after.activate_node(cleo, 30.0)
    assert [one.node_id for one in after.get_node_info(statuses=[NodeStatus.ONLINE])] == [ben]
    assert (tmp_path / "nodes.json").stat().st_mode & 0o077 == 0


def test_a_device_that_cannot_be_kept_is_not_registered(
    state: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (anna,) = register(state, "anna")

    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(RunError, match="could not be written"):
        state.create_node(OWNER, "x", b"key ben", 30.0)
    assert state.get_node_id_by_public_key(b"key ben") is None
    # Who is to be revoked is, whatever the disk says, and who asked hears that it is not kept.
    with pytest.raises(RunError, match="could not be written"):
        state.delete_node(OWNER, anna)
    assert state.get_node_id_by_public_key(b"key anna") is None
    assert opened(tmp_path / "nodes.json").get_node_id_by_public_key(b"key anna") == anna
    monkeypatch.undo()
    with pytest.raises(ValueError):  # it is revoked; asked again, that is written
        state.delete_node(OWNER, anna)
    assert opened(tmp_path / "nodes.json").get_node_id_by_public_key(b"key anna") is None
    assert state.create_node(OWNER, "x", b"key ben", 30.0)
    assert opened(tmp_path / "nodes.json").get_node_id_by_public_key(b"key anna") is None


@pytest.mark.parametrize("said", ["", "{", "[]", '{"nodes": [{}]}', '{"nodes": [[]]}', "\x00"])
def test_a_file_of_something_else_is_refused(said: str, tmp_path: Path) -> None:
    path = tmp_path / "nodes.json"
    path.write_text(said)
    with refused(RunError, str(path), expected="--memory"):
        opened(path)
    assert path.read_text() == said


def test_a_key_that_is_none_is_refused(state: Any, tmp_path: Path) -> None:
    register(state, "anna")
    path = tmp_path / "nodes.json"
    listed = json.loads(path.read_text())
    listed["nodes"][0]["public_key"] = "!"
    path.write_text(json.dumps(listed))
    with refused(RunError, str(path), expected="--memory"):
        opened(path)


def test_two_superlinks_do_not_share_a_file(tmp_path: Path) -> None:
    first = KeptNodes(tmp_path / "nodes.json")
    with refused(RunError, str(first.path), expected="no other"):
        KeptNodes(first.path)
    with refused(RunError, "nowhere", expected="folder"):
        KeptNodes(tmp_path / "nowhere" / "nodes.json")


def test_each_node_gets_its_own_messages_in_order(state: Any, run: int) -> None:
    anna, ben = register(state, "anna", "ben")
    assert took(state, anna) == []
    first, second = send(state, run, anna, "1"), send(state, run, anna, "2")
    other = send(state, run, ben, "3")
    assert took(state, anna) == [first] and took(state, ben) == [other]
    assert took(state, anna, None) == [second] and took(state, anna) == took(state, ben) == []
    assert state.get_message_ins(anna, 1, run_id=run + 1) == []


def test_what_is_over_or_withdrawn_is_not_delivered(state: Any, run: int) -> None:
    (anna,) = register(state, "anna")
    expired = send(state, run, anna, "1")
    state.message_ins_store[expired].metadata.__dict__["_ttl"] = 1e-9
    gone, stays = send(state, run, anna, "2"), send(state, run, anna, "3")
    state.delete_messages({gone})
    # Sent twice under one id, a message is delivered once.
    assert state.store_message_ins(state.message_ins_store[stays]) == stays
    assert took(state, anna, None) == [stays] and took(state, anna) == []
    assert expired not in state.message_ins_store


def test_a_reply_is_who_was_askeds(state: Any, run: int) -> None:
    """Nobody answers another's message; who asks for it hears of the answer once."""
    anna, ben = register(state, "anna", "ben")
    asked = send(state, run, anna, "1")
    (message,) = state.get_message_ins(anna, 1)
    for node, stored in ((ben, None), (anna, True)):
        TaskIdentity.node_id = node
        reply = Message(RecordDict({"said": ConfigRecord({"by": node % 7})}), reply_to=message)
        reply.metadata.__dict__["_src_node_id"] = node
        reply.metadata.__dict__["_message_id"] = reply.object_id
        assert bool(state.store_message_res(reply)) is bool(stored)
    (came,) = state.get_message_res({asked}, run)
    assert came.metadata.src_node_id == anna and not came.has_error()
    state.delete_messages({asked})
    (late,) = state.get_message_res({asked}, run)
    assert late.error.code == ErrorCode.MESSAGE_UNAVAILABLE


def test_a_look_does_not_walk_through_others_messages(
    state: Any, run: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    nodes = register(state, *(f"p{i}" for i in range(50)))
    for node in nodes[1:]:
        send(state, run, node, "1")
    checked = list[int]()
    check = InMemoryLinkState._check_stored_messages

    def counted(self: Any, ids: set[str], *more: Any) -> None:
        checked.append(len(ids))
        check(self, ids, *more)

    monkeypatch.setattr(InMemoryLinkState, "_check_stored_messages", counted)
    assert took(state, nodes[0]) == [] and len(took(state, nodes[1])) == 1
    assert checked == [1]


def test_it_is_chosen_by_an_option_and_not_beside_a_database() -> None:
    own, left = own_options(["--memory", "nodes.json", "--port", "1"], GRPC)
    assert own["memory"] == Path("nodes.json") and left == ["--port", "1"]
    for database in (["--database", "link.db"], ["--database=link.db"]):
        with refused(RunError, "--memory", got="--database", expected="one"):
            own_options(["--memory", "nodes.json", *database], GRPC)


def test_a_flower_without_what_is_replaced_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(InMemoryLinkState, "delete_messages")
    with pytest.raises(RunError, match="no delete_messages to replace"):
        replace_state(InMemoryLinkState, MemoryLinkState)
