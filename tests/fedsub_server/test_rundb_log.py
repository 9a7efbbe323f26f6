"""A damaged write-ahead log loses commits: that is said; what a killed process left is not."""

import os
import random
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
import torch

from fedsub_server.rundb import RunDatabase
from fedsub_server.rundb_log import lost_commits

ROUNDS = 5
CONFIG = {"method": "fedsub"}


@pytest.fixture
def left(tmp_path: Path) -> Path:
    """Return a database as a process leaves it that is killed while somebody reads."""
    path = tmp_path / "state.db"
    with RunDatabase(path, CONFIG) as db, closing(sqlite3.connect(path)) as reader:
        reader.execute("BEGIN").execute("SELECT count(*) FROM rounds").fetchone()
        for round in range(ROUNDS):
            db.commit(round, {"client/p": {"w": torch.arange(9000.0) + round}}, [])
        folder = tmp_path / "left"
        folder.mkdir()
        for ending in ("", "-wal"):
            shutil.copy(f"{path}{ending}", folder / f"state.db{ending}")
    return folder / "state.db"


def log_of(path: Path) -> Path:
    return path.with_name(path.name + "-wal")


def test_what_a_killed_process_left_is_whole(left: Path, caplog: pytest.LogCaptureFixture) -> None:
    assert log_of(left).stat().st_size > 0 == lost_commits(left)
    with RunDatabase(left, CONFIG) as db:
        assert db.last_round() == ROUNDS - 1
    assert not caplog.messages


def test_every_flip_in_the_log_is_said(left: Path) -> None:
    draw, whole, main = random.Random(3), log_of(left).read_bytes(), left.read_bytes()
    page = int.from_bytes(whole[8:12], "big")
    frames = (len(whole) - 32) // (page + 24)
    heads = [32 + draw.randrange(frames) * (page + 24) + draw.randrange(24) for _ in range(60)]
    heads += [draw.randrange(32) for _ in range(20)]
    for at in [*heads, *(draw.randrange(len(whole)) for _ in range(40))]:
        data = bytearray(whole)
        data[at] ^= 1 << draw.randrange(8)
        left.write_bytes(main)
        log_of(left).write_bytes(data)
        said = lost_commits(left)
        with closing(sqlite3.connect(left)) as plain:
            kept = plain.execute("SELECT max(round) FROM rounds").fetchone()[0]
        assert kept == ROUNDS - 1 or said, at
        for ending in ("-wal", "-shm"):
            left.with_name(left.name + ending).unlink(missing_ok=True)


def test_a_run_that_goes_on_says_what_was_lost(
    left: Path, caplog: pytest.LogCaptureFixture
) -> None:
    data = bytearray(log_of(left).read_bytes())
    data[2 * len(data) // 3] ^= 4
    log_of(left).write_bytes(data)
    with RunDatabase(left, CONFIG) as db:
        kept = db.last_round()
        assert kept < ROUNDS - 1
    (said,) = caplog.messages
    assert said.startswith(f"{left}-wal is damaged") and said.endswith(f"ends with round {kept}")


def test_what_was_never_committed_is_no_loss(tmp_path: Path) -> None:
    path, copy = tmp_path / "a.db", tmp_path / "b.db"
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        db.execute("PRAGMA journal_mode=WAL")
        db.execute("PRAGMA cache_size=2")
        db.execute("CREATE TABLE t (x)")
        db.execute("PRAGMA wal_checkpoint(RESTART)")  # frames of before stay behind what follows
        db.execute("INSERT INTO t VALUES (1)")
        db.execute("BEGIN")
        for _ in range(20):
            db.execute("INSERT INTO t VALUES (?)", (bytes(5000),))
        shutil.copy(path, copy)
        shutil.copy(log_of(path), log_of(copy))
        db.execute("ROLLBACK")
    assert log_of(copy).stat().st_size > 20_000 and lost_commits(copy) == 0
    # Nor is one that was being written when the process died.
    log_of(copy).write_bytes(log_of(copy).read_bytes()[:-700])
    assert lost_commits(copy) == 0


def test_after_each_commit_the_log_is_empty_and_readers_do_not_hold_it_up(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    with RunDatabase(path, CONFIG) as db, closing(sqlite3.connect(path)) as reader:
        db.commit(0, {"server": {"w": torch.ones(5)}}, [])
        assert log_of(path).stat().st_size == 0
        reader.execute("BEGIN").execute("SELECT count(*) FROM rounds").fetchone()
        before = db.seconds()
        db.commit(1, {"server": {"w": torch.ones(5)}}, [])
        db.commit(2, {"server": {"w": torch.ones(5)}}, [])
        assert log_of(path).stat().st_size > 0 and db.seconds() - before < 5
        reader.rollback()
        db.commit(3, {"server": {"w": torch.ones(5)}}, [])
        assert log_of(path).stat().st_size == 0


def test_a_log_that_is_emptied_between_a_look_at_its_size_and_its_reading_is_whole(
    left: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened = Path.open

    def emptied(path: Path, mode: str) -> object:
        path.write_bytes(b"")
        return opened(path, mode)

    monkeypatch.setattr(Path, "open", emptied)
    monkeypatch.setattr(Path, "write_bytes", lambda path, _: os.truncate(path, 0))
    assert lost_commits(left) == 0
