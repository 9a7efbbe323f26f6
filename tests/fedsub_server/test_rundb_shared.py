"""Tensors that several people hold alike: once in a run's database, and read as they were."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
import torch

from fedsub_core.errors import RunError
from fedsub_server import rundb_shared
from fedsub_server.rundb import RunDatabase, State
from fedsub_server.rundb_glance import glance

from .test_rundb_state import assert_held, written

COMMON = torch.arange(2000.0)


@pytest.fixture
def db(tmp_path: Path) -> Iterator[RunDatabase]:
    with RunDatabase(tmp_path / "state.db", {"seed": 1}) as found:
        yield found


def held(people: int = 3, common: torch.Tensor = COMMON) -> State:
    """Return people's states: a tensor that all hold, one in the middle that is a person's own."""
    return {
        "server": {"common": common.clone()},
        **{
            f"client/p{i}": {"a": common.clone(), "b": torch.rand(999), "c": common.clone() + 1}
            for i in range(people)
        },
    }


def bytes_of(db: RunDatabase) -> int:
    """Return the bytes of all rows' tensors."""
    return int(db._connection.execute("SELECT sum(length(tensors)) FROM state").fetchone()[0])


def schema(db: RunDatabase) -> str:
    """Return the version that the file says."""
    return db.meta()["schema"]


def test_a_tensor_of_many_stands_once_and_all_is_read_in_its_order(db: RunDatabase) -> None:
    state = held(people=50)
    db.commit(1, state, [])
    assert_held(db, state)
    # The server's, the two that people share, and what is each one's own.
    assert bytes_of(db) < 3 * COMMON.nbytes + 50 * 4 * 999 + 53 * 300
    assert schema(db) == "5" and glance(db.path).round == 1


def test_what_stays_is_not_written_again_and_what_nobody_holds_is_gone(db: RunDatabase) -> None:
    state = held()
    first = written(db, 1, state)
    assert len(first) == 4 + 2
    again = state | {"client/p0": state["client/p0"] | {"b": torch.rand(999)}}
    assert written(db, 2, again) == {"client/p0"}
    other = held(common=COMMON + 7)
    assert len(written(db, 3, other)) == 4 + 2
    assert_held(db, other)
    alone = {"server": other["server"], "client/p0": other["client/p0"]}
    db.commit(4, alone, [])
    assert_held(db, alone)
    assert db._connection.execute("SELECT count(*) FROM state").fetchone() == (2,)


@pytest.mark.parametrize(
    "other",
    [
        COMMON.clone().index_fill_(0, torch.tensor([1999]), -1.0),  # none of the numbers looked at
        COMMON.double(),
        COMMON.view(2, 1000),
        torch.where(COMMON == 0, -0.0, COMMON),  # equal numbers, other bits
        COMMON.view(torch.int32),
    ],
    ids=["number", "kind", "shape", "sign", "view"],
)
def test_what_is_nearly_the_same_is_not(db: RunDatabase, other: torch.Tensor) -> None:
    state = {"client/a": {"w": COMMON}, "client/b": {"w": other}}
    db.commit(1, state, [])
    assert_held(db, state)
    _, found = db.load()
    ours, theirs = (found[f"client/{c}"]["w"] for c in "ab")
    assert theirs.dtype == other.dtype and torch.equal(theirs.signbit(), other.signbit())
    assert ours.dtype == COMMON.dtype and schema(db) == "3", "nothing is shared"


def test_rows_of_one_stack_that_are_one_place_in_memory(db: RunDatabase) -> None:
    stack = COMMON.expand(4, 2000)
    state = {f"client/{i}": {"w": stack[i]} for i in range(4)}
    db.commit(1, state, [])
    assert_held(db, state)
    other = {f"client/{i}": {"w": COMMON.view(2, 1000).T[i % 2]} for i in range(4)}
    db.commit(2, other, [])
    assert_held(db, other)


@pytest.mark.parametrize("what", ["DELETE FROM state WHERE name LIKE '\n%'", None])
def test_a_shared_tensor_that_is_gone_or_another_is_damage(
    db: RunDatabase, what: str | None
) -> None:
    db.commit(1, held(), [])
    damage = what or (
        "UPDATE state SET tensors = (SELECT tensors FROM state WHERE name LIKE '\n%' LIMIT 1) "
        "WHERE name LIKE '\n%'"
    )
    with closing(sqlite3.connect(db.path)) as raw, raw:
        raw.execute(damage)
    with pytest.raises(RunError, match="the database is damaged"), RunDatabase(db.path) as anew:
        anew.load()


def test_somebody_is_forgotten_and_the_others_keep_theirs(db: RunDatabase) -> None:
    state = held()
    db.commit(1, state, [])
    del state["client/p1"]
    db.forget("p1", "(forgotten 1)", 1, state)
    assert_held(db, state)


def test_a_commit_that_failed_leaves_no_version_of_its_own(db: RunDatabase) -> None:
    db.commit(1, {"client/a": {"w": COMMON}}, [])
    with pytest.raises(RunError):
        db.commit(1, held(), [])
    assert schema(db) == "3"
    db.commit(2, held(), [])
    assert schema(db) == "5"


@pytest.fixture
def small_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rundb_shared, "LARGEST_ROW", 50_000)
    monkeypatch.setattr(rundb_shared, "PIECE", 6_000)


def large() -> State:
    """Return the state of a server that keeps much of many people, beside theirs."""
    rows = torch.rand(7, 100, 50)
    others = {"masks": rows > 0.5, "few": torch.arange(3), "one": torch.tensor(2.5)}
    return held() | {"server": {"rows": rows, **others, "zero": torch.zeros(5, 5000)}}


def test_a_server_that_keeps_more_than_a_row_holds(db: RunDatabase, small_rows: None) -> None:
    state = large()
    first = written(db, 1, state)
    assert_held(db, state)
    most = db._connection.execute("SELECT max(length(tensors)) FROM state").fetchone()[0]
    assert most < 20_000 + 500, "a piece has at least one entry of the first axis"
    assert schema(db) == "6" and glance(db.path).round == 1
    assert len({name for name in first if name.startswith("\n")}) == 7 + 7 + 1 + 2
    state["server"]["rows"][3] += 1
    assert len({name for name in written(db, 2, state) if name.startswith("\n")}) == 1
    assert_held(db, state)
    small = {"server": {"few": torch.arange(3)}}
    db.commit(3, small, [])
    assert_held(db, small)
    assert schema(db) == "6", "never lowered"
