"""Rows of clients: who is where, who joins, and what moves with them."""

import pytest
import torch

from fedsub_core.identifiers import is_client_id
from strategies.parts.roster import Roster, RosterMemory


def test_clients_are_in_the_rows_of_their_order() -> None:
    assert Roster(("anna", "ben", "cleo")).place == {"anna": 0, "ben": 1, "cleo": 2}
    assert Roster(()).place == {}


@pytest.mark.parametrize("clients", [(), ("anna",), ("anna", "ben"), ("7", "A.b-c_d", "a" * 64)])
def test_it_stands_in_a_state_as_plain_bytes(clients: tuple[str, ...]) -> None:
    assert all(is_client_id(client) for client in clients)
    tensor = Roster(clients).tensor()
    assert tensor.dtype == torch.uint8 and tensor.ndim == 1
    assert Roster.of(tensor) == Roster(clients)


def test_who_joins_is_sorted_in_and_nobody_leaves() -> None:
    roster = Roster(("ben", "dora"))
    assert roster.joined(["cleo", "anna"]).clients == ("anna", "ben", "cleo", "dora")
    assert roster.joined(["dora"]) == roster == roster.joined([])
    assert roster.clients == ("ben", "dora")
    # As ids sort, not as numbers.
    assert Roster(("p2",)).joined(["p10", "p1"]).clients == ("p1", "p10", "p2")


def test_rows_move_with_their_clients_and_new_ones_keep_what_they_start_with() -> None:
    before = Roster(("ben", "dora"))
    after = before.joined(["anna", "cleo"])
    rows = torch.tensor([[2.0, 2.5], [4.0, 4.5]])
    into = torch.full((4, 2), -1.0)
    moved = before.moved(rows, into, after)
    assert moved is into
    assert moved.tolist() == [[-1.0, -1.0], [2.0, 2.5], [-1.0, -1.0], [4.0, 4.5]]
    assert rows.tolist() == [[2.0, 2.5], [4.0, 4.5]]


def test_nobody_moves_nothing() -> None:
    into = torch.ones(2, 3)
    moved = Roster(()).moved(torch.zeros(0, 3), into, Roster(("anna", "ben")))
    assert moved.tolist() == [[1.0] * 3] * 2


def test_a_roster_is_read_once_until_another_tensor_comes(monkeypatch: pytest.MonkeyPatch) -> None:
    reads: list[int] = []
    real = Roster.of

    def counted(tensor: torch.Tensor) -> Roster:
        reads.append(len(tensor))
        return real(tensor)

    monkeypatch.setattr(Roster, "of", counted)
    memory = RosterMemory()
    first, second = Roster(("anna",)).tensor(), Roster(("anna", "ben")).tensor()
    assert [memory.of(first).clients for _ in range(3)] == [("anna",)] * 3
    assert len(reads) == 1
    assert memory.of(second).clients == ("anna", "ben")
    # Whatever they have in common: each tensor is a state of its own.
    assert memory.of(Roster(("ada", "ben")).tensor()).clients == ("ada", "ben")
    assert memory.of(Roster(("eva", "ben")).tensor()).clients == ("eva", "ben")
    assert len(reads) == 4
