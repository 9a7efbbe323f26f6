"""Who was unregistered is told from who is away, by Flower's own record of its nodes."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from flwr.app import Message
from flwr.server.superlink.linkstate import LinkStateFactory
from flwr.supercore.constant import NOOP_FEDERATION_ID, TaskType
from flwr.supercore.object_store import ObjectStoreFactory
from flwr.supercore.task_identity import TaskIdentity
from flwr.superlink.federation import NoOpFederationManager

from strategies.rounds.departures import LOOK_SECONDS, Departures
from strategies.rounds.link import Link

from ..partial_grid import PartialGrid
from ..waiting_clock import WaitingClock

# Flower's migrations of its database are set up as Alembic used to want it.
pytestmark = pytest.mark.filterwarnings("ignore:No path_separator:DeprecationWarning")


class RecordGrid(PartialGrid):
    """A Grid over the record that a SuperLink keeps of nodes and messages."""

    in_process = False

    def __init__(self, folder: Path) -> None:
        database, federations = str(folder / "link.db"), NoOpFederationManager()
        self.state: Any = LinkStateFactory(
            database, federations, ObjectStoreFactory(database)
        ).state()
        self.run_id = self.state.create_run(
            None, None, "0", {}, NOOP_FEDERATION_ID, None, "me", TaskType.SERVER_APP, None
        )
        TaskIdentity.run_id, TaskIdentity.task_id, TaskIdentity.node_id = self.run_id, 1, 1

    def register(self, client: str, online: bool = True) -> int:
        node: int = self.state.create_node("me", client, client.encode(), 30.0)
        if online:
            assert self.state.activate_node(node, 30.0)
        return node

    def get_nodes(self) -> Any:
        return self.state.get_node_info(node_ids=[*self.state.get_nodes(self.run_id)])

    def get_node_ids(self) -> list[int]:
        return [node.node_id for node in self.get_nodes()]

    def push_messages(self, messages: Iterable[Message]) -> list[str]:
        ids = []
        for message in messages:
            message.metadata.__dict__["_message_id"] = message.object_id
            ids.append(self.state.store_message_ins(message) or "")
        return ids

    def pull_messages(self, message_ids: Iterable[str]) -> list[Message]:
        found: list[Message] = self.state.get_message_res(set(message_ids), self.run_id)
        return found


def test_who_was_unregistered_is_told_from_who_is_away(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    grid = RecordGrid(tmp_path)
    link = Link(grid)
    link.clock = WaitingClock()
    nodes = {client: grid.register(client) for client in ("ann", "bob", "cyd", "dan")}
    known = Departures()
    for client, node in nodes.items():
        known.admit(client, node)

    def retired() -> set[str]:
        link.clock.wait(LOOK_SECONDS)
        known.look(link, link.nodes())
        return known.retired

    assert retired() == set()
    grid.state.deactivate_node(nodes["ann"])
    grid.state.delete_node("me", nodes["bob"])
    assert retired() == {"bob"}
    # A key may be unregistered long after its device was last here; what was sent is not kept.
    grid.state.delete_node("me", nodes["ann"])
    grid.state.deactivate_node(nodes["cyd"])
    assert retired() == {"ann", "bob"}
    said = [record.message for record in caplog.records if record.name == "fedsub"]
    assert [text.partition(": its key was unregistered")[0] for text in said] == [
        "client bob",
        "client ann",
    ]
    # Another process knows, and so it does where the key was unregistered while there was none.
    grid.state.delete_node("me", nodes["dan"])
    later = Departures(forgotten={"cyd"})
    later.recall(nodes, {"bob"})
    assert later.nodes.keys() == {"ann", "bob", "dan"} and later.retired == {"bob"}
    later.look(link, link.nodes())
    assert later.retired == {"ann", "bob", "dan"}
    # A new key is another node.
    later.admit("bob", grid.register("bob again"))
    assert later.retired == {"ann", "dan"}
    # Between two looks nobody is asked.
    grid.state.delete_node("me", later.nodes["bob"])
    later.look(link, link.nodes())
    assert later.retired == {"ann", "dan"}


def test_where_all_is_one_process_nobody_is_asked(tmp_path: Path) -> None:
    grid = RecordGrid(tmp_path)
    grid.in_process = True
    known = Departures({"ann": 7})
    known.look(Link(grid), ())
    assert known.retired == set()


def test_of_everybody_who_ever_came_those_are_needed_who_can_come_again() -> None:
    known = Departures(forgotten={"cyd"})
    known.recall({"ann": 1, "bob": 2, "dan": 3, "eve": 4}, {"dan"})
    # Five came; one is to be forgotten, the key of another was unregistered.
    assert [known.least(demanded) for demanded in (1, 3, 5)] == [1, 3, 3]
    assert known.least(6) == 6, "one who never came is still to come"
    assert Departures().least(2) == 2
    alone = Departures(forgotten={"cyd"})
    alone.recall({"ann": 1}, {"ann"})
    assert alone.least(2) == 1
