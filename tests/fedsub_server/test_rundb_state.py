"""Rows of a run's state: written where something changed, and read back as they were committed."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from fedsub_core.errors import RunError
from fedsub_core.metrics import MetricRow
from fedsub_server.rundb import RunDatabase, State

PEOPLE = ("p1", "p2", "p3")


@pytest.fixture
def db(tmp_path: Path) -> Iterator[RunDatabase]:
    with RunDatabase(tmp_path / "state.db", {"seed": 1}) as found:
        yield found


def server(*people: str) -> dict[str, torch.Tensor]:
    """Return a server's tensors: own ones in front of and behind what it keeps of each person."""
    kept = {f"{name}/{p}": torch.rand(3) for p in people for name in ("gram", "facts")}
    return {"sums": torch.rand(2), **kept, "agreed/a/b": torch.ones(1), "agreed": torch.ones(2)}


def written(db: RunDatabase, round: int, state: State) -> set[str]:
    """Commit a round; return the rows that were written, a line's end as it is."""
    statements: list[str] = []
    db._connection.set_trace_callback(statements.append)
    db.commit(round, state, [])
    db._connection.set_trace_callback(None)
    begin = "INSERT INTO state VALUES ('"
    return {one[len(begin) :].split("'")[0] for one in statements if one.startswith(begin)}


def assert_held(db: RunDatabase, expected: State) -> None:
    """Check what this process reads, and one that opens the file anew."""
    with RunDatabase(db.path) as anew:
        for found in (db.load()[1], anew.load()[1]):
            assert list(found) == list(expected)
            for group, tensors in expected.items():
                assert list(found[group]) == list(tensors)
                assert all(torch.equal(found[group][key], one) for key, one in tensors.items())


def test_what_did_not_change_is_not_written_again(db: RunDatabase) -> None:
    first = {"server": server(*PEOPLE), "client/p1": {"w": torch.rand(2)}}
    assert written(db, 1, first) == {
        "server",
        "client/p1",
        *(f"server\n{person}" for person in PEOPLE),
    }
    second = first | {"server": first["server"] | {"gram/p2": torch.rand(3)}}
    assert written(db, 2, second) == {"server\np2"}
    assert_held(db, second)
    assert written(db, 3, second) == set()
    second["server"]["facts/p3"] += 1
    assert written(db, 4, second) == {"server\np3"}, "what was changed in place changed"
    second["client/p1"] = {"w": second["client/p1"]["w"].clone()}
    assert written(db, 5, second) == {"client/p1"}, "another tensor may hold anything"
    assert_held(db, second)


def test_people_come_and_go(db: RunDatabase) -> None:
    before = {"server": server("p1", "p2")}
    db.commit(1, before, [])
    late = {"gram/p0": torch.rand(3), "facts/p0": torch.rand(3)}
    came = {"server": before["server"] | late}
    assert written(db, 2, came) == {"server", "server\np0"}
    assert_held(db, came)
    gone = {"server": {key: one for key, one in came["server"].items() if not key.endswith("p1")}}
    assert written(db, 3, gone) == {"server"}
    assert_held(db, gone)


def test_groups_in_another_order_are_read_in_it(db: RunDatabase) -> None:
    one, two, three = ({"w": torch.rand(2)} for _ in range(3))
    db.commit(1, {"client/b": one, "client/c": two}, [])
    for round, state in enumerate(
        ({"client/c": two, "client/b": one}, {"client/a": three, "client/c": two, "client/b": one}),
        2,
    ):
        db.commit(round, state, [])
        assert_held(db, state)


def test_after_a_commit_that_failed_all_is_written(db: RunDatabase) -> None:
    state = {"server": server(*PEOPLE)}
    db.commit(1, state, [])
    other = {"server": state["server"] | {"gram/p1": torch.rand(3)}}
    row = MetricRow(2, "p1", None, "loss", 1.0)
    with pytest.raises(RunError):
        db.commit(2, other, [row, row])
    assert_held(db, state)
    assert written(db, 2, other) == {"server", *(f"server\n{person}" for person in PEOPLE)}
    assert_held(db, other)


def test_a_process_that_goes_on_writes_all_once(db: RunDatabase) -> None:
    state = {"server": server(*PEOPLE)}
    db.commit(1, state, [])
    with RunDatabase(db.path, {"seed": 1}) as again:
        _, found = again.load()
        assert len(written(again, 2, found)) == 1 + len(PEOPLE)
        assert written(again, 3, found) == set()
        assert_held(again, state)
