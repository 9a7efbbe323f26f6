"""Errors of the database that tables are read into arrive as errors of a file."""

from pathlib import Path
from typing import Any

import duckdb
import pytest

from fedsub_core.errors import DataError
from fedsub_data.importing.database import Database

from .made_tables import imported, lines, written


class FullDisk:
    """A connection to a database whose disk is full when it is asked to do one thing."""

    def __init__(self, real: duckdb.DuckDBPyConnection, refuses: str) -> None:
        self._real, self._refuses = real, refuses

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)

    def execute(self, sql: str, *values: Any) -> Any:
        """Do it or not."""
        if sql.startswith(self._refuses):
            raise duckdb.IOException("IO Error: No space left on device\nand more")
        return self._real.execute(sql, *values)


@pytest.mark.parametrize(
    ("refuses", "expected"),
    [
        ("SET TimeZone", "a database in "),
        ("INSERT INTO who", "a number for each of its people"),
        ("INSERT INTO y", "a number for each of its classes"),
        ("SET threads", r"a database of \d+ threads"),
    ],
)
def test_an_error_names_the_file_and_what_was_expected(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, refuses: str, expected: str
) -> None:
    path = written(tmp_path / "a.csv", lines())
    connect = duckdb.connect

    def full(*given: Any, **options: Any) -> FullDisk:
        return FullDisk(connect(*given, **options), refuses)

    monkeypatch.setattr(duckdb, "connect", full)
    got = "got 'IO Error: No space left on device'"
    with pytest.raises(DataError, match=rf"a\.csv: cannot be imported: {got}, expected {expected}"):
        imported(path, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_number_of_threads_that_is_none_is_refused_as_the_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """DuckDB's own words, not those of a stand-in."""
    path = written(tmp_path / "a.csv", lines())
    monkeypatch.setattr("fedsub_data.importing.tables.usable_cores", lambda: 0)
    with pytest.raises(DataError, match=r"a\.csv: .*got .*thread.*, expected a database of 0 thr"):
        imported(path, tmp_path / "out")


def test_a_database_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    database = Database([tmp_path / "a.csv"], "1GB")
    (folder,) = tmp_path.iterdir()
    assert folder.stat().st_mode & 0o777 == 0o700
    database.close()
    with pytest.raises(DataError, match=r"a\.csv: cannot be imported: got .*, expected a database"):
        Database([tmp_path / "a.csv"], "a lot")
    assert not list(tmp_path.iterdir())
