"""Thinning of a long run's metrics: tables stay as they are, and nothing is lost half-way."""

import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict
from itertools import pairwise
from pathlib import Path

import pytest
import torch

from fedsub_core.errors import RunError
from fedsub_core.metrics import MetricRow
from fedsub_core.seeds import generator
from fedsub_server.results import export_csv
from fedsub_server.rundb import RunDatabase
from fedsub_server.rundb_glance import glance
from fedsub_server.rundb_thinning import Thinning
from fedsub_server.summaries import summarise_method

WHOLE, ROUNDS = 8, 400
PEOPLE = tuple(f"p{n}" for n in range(5))


def rows(round: int) -> Iterator[MetricRow]:
    """Yield a round's metrics: p4 leaves after round 60, p3 is silent now and then."""
    draw = generator(7, "", round, "rows")
    value = torch.rand(len(PEOPLE), 3, generator=draw, dtype=torch.float64)
    yield (
        MetricRow(round, "", 1, "clusters", float(value[0, 0]))
        if round in (1, 90)
        else (MetricRow(round, "", None, "sparsity_weights", round / 1000))
    )
    for n, client in enumerate(PEOPLE):
        if client == "p4" and round > 60:
            yield MetricRow(round, client, None, "resting", 1)
            continue
        if client == "p3" and value[n, 1] < 0.2:
            yield MetricRow(round, client, None, "missing_replies", 1)
            continue
        yield MetricRow(round, client, None, "bytes_full_model", 4000)
        yield MetricRow(round, client, None, "bytes_up_sent", 100 + int(900 * value[n, 2]))
        if round % 3 == 1 or round == ROUNDS:
            yield MetricRow(round, client, None, "macro_f1", float(value[n, 0]))
            yield MetricRow(round, client, None, "loss", 2 - round / 400)
            yield MetricRow(round, client, None, "examples", 9)


def write(path: Path, whole: int, end: int = ROUNDS) -> None:
    """Write a run, as the driver does; go on where one ended."""
    with RunDatabase(path, {"seed": 1}) as database:
        begun, _ = database.load()
        if not begun:
            database.commit(0, {}, [MetricRow(0, "p0", None, "bytes_up_sent", 77)])
        for round in range(begun + 1, end + 1):
            database.commit(round, {"server": {"w": torch.full((2,), float(round))}}, rows(round))
            database.thin(whole, ROUNDS)
        while whole and end == ROUNDS:
            left = database.thinned()
            database.thin(whole, ROUNDS)
            if database.thinned() == left:
                break


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Return the same run's database, whole and thinned."""
    folder = tmp_path_factory.mktemp("thinning")
    paths = folder / "whole" / "state.db", folder / "thinned" / "state.db"
    for path, whole in zip(paths, (0, WHOLE), strict=True):
        path.parent.mkdir()
        write(path, whole)
    return paths


def test_a_table_at_the_end_is_that_of_all_rounds(both: tuple[Path, Path]) -> None:
    found = []
    for path in both:
        with RunDatabase(path) as database:
            found.append(summarise_method(database, None))
    everything, thinned = found
    assert "were thinned with age" in thinned.in_rounds
    assert thinned.in_rounds.startswith(everything.in_rounds)
    same = {"method": "", "in_rounds": "", "seconds": 0.0}
    assert asdict(thinned) | same == asdict(everything) | same
    assert everything.loss_fall is not None and "p3" in everything.in_rounds


def test_recent_rounds_first_best_and_everybodys_newest_rows_stay(both: tuple[Path, Path]) -> None:
    kept: list[list[MetricRow]] = []
    uploads = []
    for path in both:
        with RunDatabase(path) as database:
            kept.append(list(database.metrics()))
            uploads.append(database.last_rounds("bytes_up_sent"))
            assert database.last_round() == ROUNDS and len(database.clients()) == 5
            assert float(database.load()[1]["server"]["w"][0]) == ROUNDS
    assert uploads[0] == uploads[1] and uploads[0]["p4"] == 60
    everything, thinned = kept
    assert set(thinned) < set(everything) and len(thinned) < len(everything) / 4
    for first, last in ((0, 1), (ROUNDS - WHOLE + 1, ROUNDS)):
        own = [[row for row in rows if first <= row.round <= last] for rows in kept]
        assert own[0] == own[1]
    newest = [{row[1:4]: row.value for row in rows} for rows in kept]
    assert newest[0] == newest[1]
    means: dict[int, list[float]] = {}
    for row in everything:
        if row.metric == "macro_f1":
            means.setdefault(row.round, []).append(row.value)
    best = max(means, key=lambda round: sum(means[round]) / len(means[round]))
    assert [r for r in thinned if r.round == best] == [r for r in everything if r.round == best]


def test_gaps_grow_no_faster_than_age(both: tuple[Path, Path]) -> None:
    with RunDatabase(both[1]) as database:
        tested = sorted({r.round for r in database.metrics("macro_f1") if r.client == "p0"})
        left = database.thinned()
    gaps = [(b - a, ROUNDS - a) for a, b in pairwise(tested)]
    assert all(gap <= age for gap, age in gaps)
    assert left < 2 * WHOLE + 6 * 10


def test_times_are_kept_and_a_glance_reads_it(both: tuple[Path, Path]) -> None:
    with RunDatabase(both[1]) as database:
        seconds = database.seconds_by_round()
        total = database.seconds()
    look = glance(both[1])
    assert look.round == ROUNDS and look.total == pytest.approx(total)
    assert len(seconds) < ROUNDS / 4 and set(range(ROUNDS - WHOLE, ROUNDS + 1)) <= set(seconds)
    assert look.last("bytes_up_sent")["p0"] == ROUNDS


def test_a_short_run_keeps_every_row_and_the_older_releases_schema(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    write(path, WHOLE, end=4 * WHOLE)
    with RunDatabase(path) as database:
        assert database.meta()["schema"] == "3" and not database.thinned()
        assert list(database.metrics("bytes_up_sent"))[-1].round == 4 * WHOLE
        export_csv(database, tmp_path / "metrics.csv")
    assert (tmp_path / "metrics.csv").is_file()
    write(path, WHOLE, end=4 * WHOLE + 1)
    with RunDatabase(path) as database:
        assert database.meta()["schema"] == "4" and database.thinned()
        export_csv(database, tmp_path / "metrics.csv")
    assert not (tmp_path / "metrics.csv").exists()


def test_who_is_forgotten_is_in_no_table_of_a_thinned_run(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    write(path, WHOLE, end=150)
    with RunDatabase(path) as database:
        before = database.rounds_above_0("missing_replies")["p3"], database.mean("bytes_up_sent")
        database.forget("p3", "(forgotten 1)", 150, {})
        after = database.rounds_above_0("missing_replies")["(forgotten 1)"]
        assert (after, database.mean("bytes_up_sent")) == before
    assert b"p3" not in path.read_bytes()


def test_a_changed_number_of_what_went_is_found(both: tuple[Path, Path], tmp_path: Path) -> None:
    for change in ("total = total + 1 WHERE rows > 0", "rounds = x'00' WHERE metric != ''"):
        path = tmp_path / "state.db"
        path.write_bytes(both[1].read_bytes())
        with sqlite3.connect(path) as raw:
            raw.execute(f"UPDATE thinned SET {change}")
        raw.close()
        with pytest.raises(RunError, match="damaged"), RunDatabase(path) as database:
            database.rounds_above_0("missing_replies")


def test_thinning_that_fails_is_repeated_as_if_it_had_not_been(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise sqlite3.OperationalError("database or disk is full")

    kept = []
    for name, fails in (("once", True), ("never", False)):
        path = tmp_path / name / "state.db"
        path.parent.mkdir()
        write(path, 0, end=150)
        with RunDatabase(path) as database:
            if fails:
                with monkeypatch.context() as patch, pytest.raises(RunError, match="full"):
                    patch.setattr(Thinning, "_keep_rounds", full)
                    database.thin(WHOLE, ROUNDS)
            for _ in range(3):
                database.thin(WHOLE, ROUNDS)
            kept.append(list(database.metrics()))
    assert kept[0] == kept[1]


_WRITER = """
import sys
from itertools import pairwise
from pathlib import Path
from tests.fedsub_server.test_rundb_thinning import WHOLE, write
write(Path(sys.argv[1]), WHOLE)
"""


@pytest.mark.slow
def test_a_writer_that_is_killed_while_it_thins_loses_nothing(
    both: tuple[Path, Path], tmp_path: Path
) -> None:
    path, draw = tmp_path / "state.db", generator(3, "", 0, "kills")
    for target in range(40, ROUNDS, 60):
        process = subprocess.Popen([sys.executable, "-c", _WRITER, str(path)])
        while not path.exists() or glance(path).round < target:
            assert process.poll() is None
            time.sleep(0.01 * float(torch.rand((), generator=draw)))
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
    write(path, WHOLE)
    with RunDatabase(path) as killed, RunDatabase(both[0]) as everything:
        one, two = (summarise_method(each, None) for each in (killed, everything))
        assert {r[1:4]: r for r in killed.metrics()} == {r[1:4]: r for r in everything.metrics()}
    assert (one.bytes_up, one.loss_fall, one.macro_f1) == (
        two.bytes_up,
        two.loss_fall,
        two.macro_f1,
    )
    assert one.in_rounds.startswith(two.in_rounds)
