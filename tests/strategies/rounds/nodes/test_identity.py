"""A client is who came with its key, or whose key was registered under its id."""

from dataclasses import dataclass, field, replace

import pytest
from flwr.proto.node_pb2 import NodeInfo

from strategies.rounds.identity import Identities, NodeKey
from strategies.rounds.link import Link
from strategies.rounds.nodes import MISFIT_SECONDS, NodeRegistry

from .scripted_grid import ScriptedGrid


@dataclass
class KeyedGrid(ScriptedGrid):
    """A scripted Grid that tells of its nodes' keys and of the names these were registered by."""

    keys: dict[int, tuple[bytes, str]] = field(default_factory=dict)

    def get_nodes(self) -> list[NodeInfo]:
        return [
            NodeInfo(node_id=n, public_key=self.keys[n][0], name=self.keys[n][1])
            for n in self.get_node_ids()
        ]


@pytest.fixture
def keyed(grid: ScriptedGrid) -> KeyedGrid:
    """Return a Grid with nodes of anna and ben, whose keys have no names."""
    return KeyedGrid(grid.clock, {1: "anna", 2: "ben"}, keys={1: (b"a", ""), 2: (b"b", "")})


def after_a_round(keyed: KeyedGrid, **registry: bool) -> NodeRegistry:
    """Return the registry after a round in which everybody took part."""
    made = NodeRegistry(**registry)  # type: ignore[arg-type]
    made.refresh(Link(keyed))
    made.bind(sorted(made.online))
    return made


def test_nobody_takes_part_under_the_id_of_one_who_is_away(
    keyed: KeyedGrid, caplog: pytest.LogCaptureFixture
) -> None:
    registry = after_a_round(keyed)
    del keyed.clients[2]
    keyed.clients[7], keyed.keys[7] = "ben", (b"mallory", "")
    registry.refresh(Link(keyed))
    assert registry.online == {"anna"} and registry.nodes["ben"] == 2
    assert "node 7: client 'ben' took part with the key" in caplog.text
    # His own key, under a new node id, is still he.
    keyed.clients[8], keyed.keys[8] = "ben", (b"b", "")
    registry.refresh(Link(keyed))
    assert registry.online == {"anna", "ben"} and registry.nodes["ben"] == 8


def test_one_that_says_it_is_simulated_is_bound_like_those_beside_it(keyed: KeyedGrid) -> None:
    """All of a simulation have new keys whenever it goes on, and are not bound."""
    registry = NodeRegistry()
    registry.refresh(Link(keyed))
    everybody = registry.introductions
    everybody["ben"] = replace(everybody["ben"], nodes=2, people=2)
    registry.bind(["anna", "ben"])
    assert set(registry.identities.ties) == {"anna", "ben"}
    everybody["anna"] = replace(everybody["anna"], nodes=2, people=2)
    registry.identities = Identities()
    registry.bind(["anna", "ben"])
    assert not registry.identities.ties


def test_it_holds_for_a_run_that_goes_on(keyed: KeyedGrid) -> None:
    kept = after_a_round(keyed).identities.tensors()
    keyed.clients, keyed.keys[1] = {1: "anna", 2: "ben"}, (b"mallory", "")
    registry = NodeRegistry(identities=Identities.of(kept))
    registry.refresh(Link(keyed))
    assert registry.online == {"ben"}


def test_a_key_is_of_one_client(keyed: KeyedGrid, caplog: pytest.LogCaptureFixture) -> None:
    registry = after_a_round(keyed)
    del keyed.clients[2]
    keyed.clients[7], keyed.keys[7] = "cleo", (b"b", "")
    registry.refresh(Link(keyed))
    assert registry.online == {"anna"}
    assert "node 7: it says it is client 'cleo', and its key is that of client 'ben'" in caplog.text


def test_a_name_is_the_operators_word(keyed: KeyedGrid, caplog: pytest.LogCaptureFixture) -> None:
    """Mallory's key was registered as mallory's, and takes nobody's place, not even a free one."""
    keyed.keys[2] = (b"m", "mallory")
    registry = after_a_round(keyed)
    assert registry.online == {"anna"}
    expected = "it says it is client 'ben', and its key was registered under the name 'mallory'"
    assert f"node 2: {expected}" in caplog.text
    keyed.clients[2] = "mallory"
    keyed.clock.wait(MISFIT_SECONDS)
    registry.refresh(Link(keyed))
    assert registry.online == {"anna", "mallory"}


def test_a_name_that_can_be_no_clients_says_nothing(keyed: KeyedGrid) -> None:
    keyed.keys[2] = (b"b", "Ben's telephone")
    assert after_a_round(keyed).online == {"anna", "ben"}


def test_a_new_key_that_is_registered_under_the_id_takes_the_old_ones_place(
    keyed: KeyedGrid,
) -> None:
    registry = after_a_round(keyed)
    del keyed.clients[2]
    keyed.clients[3], keyed.keys[3] = "ben", (b"new", "ben")
    registry.refresh(Link(keyed))
    registry.bind(["ben"])
    assert registry.nodes["ben"] == 3
    assert registry.identities.refusal("ben", NodeKey(digest="old"))


def test_the_registered_one_is_let_in_though_another_sits_in_its_place(keyed: KeyedGrid) -> None:
    registry = after_a_round(keyed)
    keyed.clients[3], keyed.keys[3] = "ben", (b"bens own", "ben")
    registry.refresh(Link(keyed))
    assert registry.nodes["ben"] == 3 and registry.online == {"anna", "ben"}
    assert "registered as client 'ben'" in registry.turned_away[2]


def test_of_two_that_were_registered_alike_the_second_is_refused(keyed: KeyedGrid) -> None:
    keyed.keys[2] = (b"b", "ben")
    registry = after_a_round(keyed)
    keyed.clients[3], keyed.keys[3] = "ben", (b"c", "ben")
    registry.refresh(Link(keyed))
    assert registry.nodes["ben"] == 2 and "two nodes, 2 and 3" in registry.turned_away[3]


def test_who_has_only_said_hello_holds_no_id(keyed: KeyedGrid) -> None:
    """A device that was admitted and never gave anything does not keep the owner out."""
    registry = NodeRegistry()
    registry.refresh(Link(keyed))
    del keyed.clients[2]
    keyed.clients[7], keyed.keys[7] = "ben", (b"the owner", "")
    registry.refresh(Link(keyed))
    assert registry.nodes["ben"] == 7


def test_an_open_run_takes_everybodys_word(keyed: KeyedGrid) -> None:
    registry = after_a_round(keyed, bound=False)
    assert registry.identities.tensors() == {}
    del keyed.clients[2]
    keyed.clients[7], keyed.keys[7] = "ben", (b"mallory", "mallory")
    registry.refresh(Link(keyed))
    assert registry.nodes["ben"] == 7


def test_without_keys_there_is_nothing_to_tie() -> None:
    identities = Identities()
    identities.tie("anna", NodeKey())
    assert identities == Identities.of({}) and identities.refusal("ben", NodeKey()) == ""
