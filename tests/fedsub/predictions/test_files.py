"""Rows as files: whole or not at all, more than memory holds, with the same columns."""

import tracemalloc
from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest

from fedsub.predictions.files import write_rows
from fedsub.predictions.tables import Row, mean_rows
from fedsub.testing.refusals import refused
from fedsub_core.errors import RunError


def rows(many: int) -> Iterator[Row]:
    for i in range(many):
        yield {"person": "007", "index": i, "t": None, "class": "sit, down", "probability a": 0.5}


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_rows_are_written_as_they_come(tmp_path: Path, ending: str) -> None:
    path, many = tmp_path / f"rows.{ending}", 30_000
    tracemalloc.start()
    write_rows(path, rows(many))
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert most < 8_000_000, "all rows in memory are above 10 MB"
    found = duckdb.sql(f"select count(*), min(person), max(\"class\") from read_{ending}("
                       f"'{path}'{', all_varchar=true' if ending == 'csv' else ''})")  # fmt: skip
    assert found is not None and found.fetchall() == [(many, "007", "sit, down")]


def test_a_file_is_whole_or_not_there(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    with refused(RunError, "rows.csv", "no row"):
        write_rows(path, [])
    with refused(RunError, got="b", expected="a"):
        write_rows(path, [{"a": 1}, {"b": 1}])
    assert list(tmp_path.iterdir()) == []


def test_a_person_in_several_runs_counts_once() -> None:
    scores = [("anna", 0.0), ("anna", 1.0), ("ben", 1.0), ("carl", float("nan"))]
    (mean,) = mean_rows([{"person": p, "method": "m", "tested": 3, "auroc": s} for p, s in scores])
    assert mean == {"method": "m", "people": 3, "auroc": 0.75, "auroc: people": 2}
