"""The run's database: what it gives back, what it refuses."""

import json
import math
import random
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from itertools import islice
from pathlib import Path

import pytest
import torch

from fedsub.testing.refusals import refused
from fedsub_core.errors import ConfigError, RunError
from fedsub_core.methods.fedsub import FedSubHyperparameters
from fedsub_core.metrics import MetricRow
from fedsub_core.version import VERSION
from fedsub_server import rundb_file
from fedsub_server.rundb import RunDatabase, State

CONFIG = {"seed": 1, "train.lr": 0.005, "method": "fedsub", "classes": ["a", "b"]}
#: Bytes of a page.
PAGE = 16384


def state(value: int) -> State:
    return {
        "server": {"z": torch.full((2, 3), float(value)), "a": torch.tensor(value)},
        "client/01": {"mask": torch.tensor([True, False, value % 2 == 0])},
        "client/00": {"empty": torch.zeros(0, 4, dtype=torch.float16)},
        "none": {},
    }


def assert_equal(got: State, expected: State) -> None:
    assert list(got) == list(expected)
    for group, tensors in expected.items():
        assert list(got[group]) == list(tensors)
        for name, tensor in tensors.items():
            assert got[group][name].dtype == tensor.dtype
            assert torch.equal(got[group][name], tensor)


def rows(round: int) -> list[MetricRow]:
    return [
        MetricRow(round, "01", None, "macro_f1", 0.1 + 0.2),
        MetricRow(round, "00", 1, "f1", 0.25),
        MetricRow(round, "00", 0, "f1", math.nan),
    ]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "state.db"


def test_a_new_run_starts_at_round_0_with_nothing(path: Path) -> None:
    with RunDatabase(path, CONFIG) as db:
        assert (db.last_round(), db.load(), list(db.metrics())) == (0, (0, {}), [])


def test_reopening_gives_the_last_round_and_all_metrics(path: Path) -> None:
    with RunDatabase(path, CONFIG) as db:
        for round in (0, 1, 2):
            db.commit(round, state(round), rows(round))
    with RunDatabase(path, CONFIG) as db:
        round, found = db.load()
        assert round == db.last_round() == 2
        assert_equal(found, state(2))
        found_rows = list(db.metrics())
        assert [r[:4] for r in found_rows] == [
            row
            for i in (0, 1, 2)
            for row in ((i, "00", 0, "f1"), (i, "00", 1, "f1"), (i, "01", None, "macro_f1"))
        ]
        assert math.isnan(found_rows[0].value)
        assert [r.value for r in db.metrics("macro_f1")] == [0.1 + 0.2] * 3
        assert list(db.metrics("accuracy")) == []
        assert 0 < db.seconds() < 60


def test_one_commit_may_hold_the_metrics_of_several_rounds(path: Path) -> None:
    with RunDatabase(path, CONFIG) as db:
        db.commit(2, state(2), [*rows(1), *rows(2)])
        db.commit(5, state(5), [*rows(3), *rows(4), *rows(5)])
        assert [r.round for r in db.metrics("macro_f1")] == [1, 2, 3, 4, 5]
        assert db.last_round() == 5


def test_state_that_went_is_gone(path: Path) -> None:
    with RunDatabase(path, CONFIG) as db:
        db.commit(1, {"client/01": {"w": torch.ones(2)}}, [])
        db.commit(2, {"client/02": {"w": torch.ones(2)}}, [])
        assert list(db.load()[1]) == ["client/02"]


def test_views_of_a_stack_are_stored_as_themselves(path: Path) -> None:
    stack = torch.arange(24.0).view(2, 3, 4)
    with RunDatabase(path, CONFIG) as db:
        db.commit(1, {f"client/{i}": {"w": stack[i], "t": stack[i].t()} for i in (0, 1)}, [])
        _, found = db.load()
    assert torch.equal(found["client/1"]["w"], stack[1])
    assert torch.equal(found["client/1"]["t"], stack[1].t())


def test_commits_are_synced_and_in_the_write_ahead_log(path: Path) -> None:
    with RunDatabase(path, CONFIG) as db:
        assert db._connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
        assert db._connection.execute("PRAGMA synchronous").fetchone() == (2,)
    with RunDatabase(path) as db:
        assert db._connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
        assert db._connection.execute("PRAGMA synchronous").fetchone() == (2,)


def stops_halfway() -> Iterator[MetricRow]:
    yield MetricRow(2, "01", None, "loss", 1.0)
    raise KeyboardInterrupt


@pytest.mark.parametrize(
    ("metrics", "error"),
    [
        (stops_halfway(), KeyboardInterrupt),
        ([*rows(2), rows(2)[0]], RunError),
        ([*rows(2), *rows(1)], RunError),
        ([*rows(2), *rows(3)], RunError),
        ([MetricRow(2, "01", -1, "f1", 1.0)], RunError),
    ],
    ids=["interrupted", "twice", "earlier", "later", "negative-class"],
)
def test_a_commit_that_fails_changes_nothing(
    path: Path, metrics: list[MetricRow], error: type[BaseException]
) -> None:
    with RunDatabase(path, CONFIG) as db:
        db.commit(1, state(1), rows(1))
        with pytest.raises(error):
            db.commit(2, state(2), metrics)
        assert_equal(db.load()[1], state(1))
        assert (db.last_round(), len(list(db.metrics()))) == (1, 3)
        db.commit(2, state(2), rows(2))
        assert_equal(db.load()[1], state(2))


def test_a_full_disk_changes_nothing(path: Path) -> None:
    with RunDatabase(path, CONFIG) as db:
        db.commit(1, state(1), rows(1))
        pages = db._connection.execute("PRAGMA page_count").fetchone()[0]
        db._connection.execute(f"PRAGMA max_page_count={pages + 2}")
        with pytest.raises(RunError, match=r"cannot be written .*full"):
            db.commit(2, {"server": {"w": torch.zeros(100_000)}}, rows(2))
        assert_equal(db.load()[1], state(1))
        assert (db.last_round(), len(list(db.metrics()))) == (1, 3)


@pytest.mark.parametrize("round", [-1, 0, 1, 2])
def test_a_round_is_committed_once_and_in_order(path: Path, round: int) -> None:
    with RunDatabase(path, CONFIG) as db:
        db.commit(2, state(2), rows(2))
        with refused(RunError, got=f"round {round}", expected=2):
            db.commit(round, state(round), [])


def test_a_second_process_on_the_same_run_is_refused(path: Path) -> None:
    with RunDatabase(path, CONFIG) as db, RunDatabase(path, CONFIG) as other:
        db.commit(1, state(1), rows(1))
        with pytest.raises(RunError, match="one process per run folder"):
            other.commit(1, state(5), rows(1))
        assert_equal(db.load()[1], state(1))


def test_results_are_read_while_the_run_goes_on(path: Path) -> None:
    with RunDatabase(path, CONFIG) as db:
        db.commit(1, state(1), rows(1))
        with RunDatabase(path) as reader:
            db.commit(2, state(2), rows(2))
            assert reader.last_round() == 2
            assert json.loads(reader.meta()["config"]) == CONFIG


def test_a_run_knows_all_the_code_that_trained_it(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for code in ("first", "first", "second", "first"):
        monkeypatch.setattr(rundb_file, "code_digest", lambda code=code: code)
        RunDatabase(path, CONFIG).close()
    monkeypatch.setattr(rundb_file, "code_digest", lambda: "a reader's")
    with RunDatabase(path) as reader:
        assert reader.trained_by() == f"{VERSION} (code first, second, first)"


def test_another_configuration_is_refused_and_named(path: Path) -> None:
    RunDatabase(path, CONFIG).close()
    RunDatabase(path, {**CONFIG, "classes": ("a", "b")}).close()
    other = {"seed": 1, "train.lr": 0.01, "method": "fedsub", "new": True, "classes": ["a", "b"]}
    with pytest.raises(RunError) as caught:
        RunDatabase(path, other)
    assert "new was None and is now True, train.lr was 0.005 and is now 0.01;" in str(caught.value)
    assert "seed" not in str(caught.value)


def test_an_option_that_came_since_counts_as_its_default(path: Path) -> None:
    """And stays what it was then, whatever its default becomes."""
    RunDatabase(path, CONFIG).close()
    new = {**CONFIG, "clip-norm": 0.0, "fedsub.depth": 1}
    with pytest.raises(RunError, match=r"fedsub\.depth was None and is now 1;"):
        RunDatabase(path, new)
    default = FedSubHyperparameters().depth
    RunDatabase(path, new | {"fedsub.depth": default}).close()
    with RunDatabase(path) as reader:
        kept = json.loads(reader.meta()["config"])
    assert kept == {**CONFIG, "classes": ["a", "b"], "clip-norm": 0.0, "fedsub.depth": default}
    with pytest.raises(RunError, match=r"clip-norm was 0\.0 and is now 1\.0;"):
        RunDatabase(path, new | {"clip-norm": 1.0, "fedsub.depth": default})
    with refused(RunError, "clip-norm", "0.0", "None", "fedsub"):
        RunDatabase(path, CONFIG)


def test_a_later_releases_database_is_refused_by_name_and_stays(path: Path) -> None:
    RunDatabase(path, CONFIG).close()
    connection = sqlite3.connect(path)
    with connection:
        connection.execute("UPDATE meta SET value = '9' WHERE key = 'schema'")
        connection.execute("UPDATE meta SET value = '7.8' WHERE key = 'version'")
    connection.close()
    before = path.read_bytes()
    for config in (CONFIG, None):
        with refused(RunError, "version 9", "fedsub 7.8", expected=3):
            RunDatabase(path, config)
    assert path.read_bytes() == before


@pytest.mark.parametrize("value", [math.nan, {"lr": 1}, Path("x")])
def test_a_configuration_that_json_cannot_hold_is_refused(path: Path, value: object) -> None:
    with pytest.raises(ConfigError, match="config of a run"):
        RunDatabase(path, {"key": value})
    assert not path.exists()


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE metrics SET value = value + 1 WHERE round = 1",
        "UPDATE metrics SET value = NULL WHERE round = 2",
        "UPDATE metrics SET client = 'somebody' WHERE round = 1 AND client != ''",
        "DELETE FROM metrics WHERE round = 2",
        "INSERT INTO metrics SELECT 3, client, metric, class, value FROM metrics WHERE round = 2",
    ],
)
def test_metrics_that_are_not_those_committed_are_refused(path: Path, change: str) -> None:
    with RunDatabase(path, CONFIG) as db:
        db.commit(1, {}, rows(1))
        odd = [math.nan, -0.0, math.inf, 1e-300]
        db.commit(2, {}, [MetricRow(2, f"p{i}", None, "loss", v) for i, v in enumerate(odd)])
        assert db.load()[0] == 2
    with closing(sqlite3.connect(path)) as raw, raw:
        assert raw.execute(change).rowcount > 0
    for read in (RunDatabase.load, RunDatabase.clients, lambda db: list(db.metrics("loss"))):
        with RunDatabase(path, CONFIG) as db, pytest.raises(RunError, match=r"damaged.*metrics"):
            read(db)


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE meta SET value = replace(value, '0.005', '0.006') WHERE key = 'config'",
        "UPDATE meta SET value = value || 'x' WHERE key = 'run'",
        "UPDATE meta SET value = 'abc' WHERE key = 'code'",
        "DELETE FROM meta WHERE key = 'version'",
        "INSERT INTO meta VALUES ('forgotten', '1')",
        "DELETE FROM meta WHERE key = 'seal'",
        "UPDATE rounds SET round = 7 WHERE round = 2",
        "UPDATE rounds SET seconds = seconds + 1",
        "UPDATE rounds SET metrics_crc = 0 WHERE round = 1",
        "DELETE FROM rounds WHERE round = 2",
        "UPDATE state SET name = 'client/07' WHERE name = 'client/00'",
        """UPDATE state SET keys = '["b"]' WHERE name = 'client/01'""",
        "UPDATE state SET rowid = rowid + 10 WHERE name = 'server'",
        "UPDATE state SET crc = 0 WHERE name = 'client/01'",
        "DELETE FROM state WHERE name = 'client/01'",
        "ALTER TABLE rounds RENAME COLUMN seconds TO secomds",
        "DROP TABLE metrics",
    ],
)
def test_whatever_was_changed_is_refused(path: Path, change: str) -> None:
    with RunDatabase(path, CONFIG) as db:
        db.commit(1, state(1), rows(1))
        db.commit(2, state(2), rows(2))
    with closing(sqlite3.connect(path)) as raw, raw:
        raw.execute(change)
    assert everything(path) == f"{path}: the database is damaged"


def test_another_schema_version_is_refused(path: Path) -> None:
    RunDatabase(path, CONFIG).close()
    with sqlite3.connect(path) as raw:
        raw.execute("UPDATE meta SET value = '99' WHERE key = 'schema'")
    with refused(RunError, "version 99", expected=3):
        RunDatabase(path, CONFIG)


def test_a_missing_database_is_not_made_by_reading(path: Path) -> None:
    with pytest.raises(RunError, match="no run's database here"):
        RunDatabase(path)
    assert not path.exists()


def test_another_programs_database_is_left_alone(path: Path) -> None:
    with sqlite3.connect(path) as raw:
        raw.execute("CREATE TABLE meta (key, value)")
    raw.close()
    before = path.read_bytes()
    with pytest.raises(RunError, match="no run's database"):
        RunDatabase(path, CONFIG)
    assert path.read_bytes() == before


def everything(path: Path) -> object:
    """Return all that can be read of a database, or how its refusal begins."""
    try:
        with RunDatabase(path) as db:
            round, found = db.load()
            tensors = {
                group: {key: (str(t.dtype), t.tolist()) for key, t in held.items()}
                for group, held in found.items()
            }
            kept = [db.meta(), db.clients(), db.seconds_by_round(), db.memory(), db.forgotten()]
            return repr([round, list(tensors.items()), kept, list(db.metrics()), db.last_round()])
    except RunError as error:
        assert "\n" not in str(error)
        return str(error).partition(" (")[0]


def flips(path: Path, seed: int) -> Iterator[int]:
    """Yield each page's number with a bit of it flipped in the file, each in turn."""
    draw, whole = random.Random(seed), path.read_bytes()
    while True:
        for page in range(len(whole) // PAGE):
            # Half of them where something stands: much of a page of a small table is empty.
            at = draw.randrange(page * PAGE, (page + 1) * PAGE)
            if draw.random() < 0.5:
                used = [i for i in range(page * PAGE, (page + 1) * PAGE) if whole[i]]
                at = draw.choice(used or [at])
            data = bytearray(whole)
            data[at] ^= 1 << draw.randrange(8)
            path.write_bytes(data)
            yield page
            for ending in ("-wal", "-shm"):
                path.with_name(path.name + ending).unlink(missing_ok=True)


def flip_everywhere(path: Path, count: int, seed: int) -> None:
    with RunDatabase(path, CONFIG) as db:
        for round in (0, 1, 2, 3):
            many = [MetricRow(round, f"{i:02d}", i % 3, f"m{i % 7}", i / 3) for i in range(400)]
            big = {"client/big": {"w": torch.arange(6000.0) + round}}
            db.commit(round, state(round) | big, many)
        db.note_memory(7)
    expected, refused, pages = everything(path), 0, set()
    for page in islice(flips(path, seed), count):
        found = everything(path)
        pages.add(page)
        if found != expected:
            refused += 1
            assert str(found).startswith(f"{path}: "), (page, found)
    assert len(pages) > 8 and count / 4 < refused < count


def test_a_flip_in_any_page_is_refused_or_changes_nothing(path: Path) -> None:
    flip_everywhere(path, 60, seed=1)


@pytest.mark.slow
@pytest.mark.release
def test_thousands_of_flips_are_refused_or_change_nothing(path: Path) -> None:
    flip_everywhere(path, 2000, seed=2)


def filled(path: Path) -> bytearray:
    with RunDatabase(path, CONFIG) as db:
        db.commit(1, {"server": {"w": torch.full((50_000,), 7.0)}}, rows(1))
    return bytearray(path.read_bytes())


@pytest.mark.parametrize("keep", [0.1, 0.5, 0.9])
def test_a_cut_file_is_refused(path: Path, keep: float) -> None:
    data = filled(path)
    path.write_bytes(data[: int(len(data) * keep)])
    with pytest.raises(RunError, match="damaged"):
        RunDatabase(path, CONFIG)


def test_a_file_that_is_no_database_is_refused(path: Path) -> None:
    path.write_text("round,client\n" * 100)
    with pytest.raises(RunError, match="damaged"):
        RunDatabase(path, CONFIG)


def test_one_flipped_bit_in_the_weights_is_found(path: Path) -> None:
    data = filled(path)
    sevens = torch.full((10,), 7.0).numpy().tobytes()
    data[data.index(sevens) + 1] ^= 1
    path.write_bytes(data)
    with RunDatabase(path, CONFIG) as db, pytest.raises(RunError, match="checksum of state 'serv"):
        db.load()


def test_a_folder_that_does_not_exist_is_named(tmp_path: Path) -> None:
    with pytest.raises(RunError, match="check that its folder exists"):
        RunDatabase(tmp_path / "nowhere" / "state.db", CONFIG)


def test_the_time_of_the_servers_own_half_is_a_mean_over_the_rounds_that_have_it(
    path: Path,
) -> None:
    """A run of before, which kept none, goes on and has that of the rounds that came after."""
    with RunDatabase(path, CONFIG) as db:
        db.commit(1, {}, [])
        assert db.server_seconds() is None
        db.commit(2, {}, [], (0.5, 1))
        db.commit(5, {}, [], (1.0, 3))
    with RunDatabase(path) as db:
        assert db.server_seconds() == pytest.approx(0.375)
