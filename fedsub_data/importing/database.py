"""A DuckDB database in a temporary folder, whose errors are those of the file that was read."""

import re
import shutil
import tempfile
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

import duckdb
import numpy as np
from numpy.typing import NDArray

from fedsub_core.errors import DataError, cut
from fedsub_core.spelling import spelt

Found = TypeVar("Found")


class Database:
    """To be closed: it lies in a folder that only its owner can read.

    Parameters
    ----------
    files : what is read into it; errors name one of them.
    memory : what it may take, such as ``2GB``.

    Raises DataError where it cannot be made.
    """

    def __init__(self, files: Sequence[Path], memory: str) -> None:
        self._files, self._memory = list(files), memory
        self._folder = tempfile.mkdtemp(prefix="fedsub-import-")
        try:
            self.asked(self._open, expected=f"a database in {tempfile.gettempdir()}")
        except BaseException:
            self.close()
            raise

    @property
    def folder(self) -> Path:
        """The folder of the database, which is removed with it."""
        return Path(self._folder)

    def close(self) -> None:
        """Remove the database and its folder."""
        with suppress(AttributeError):
            self.connection.close()
        shutil.rmtree(self._folder, ignore_errors=True)

    def run(
        self, sql: str, file: int = 0, values: Sequence[object] = (), expected: str = ""
    ) -> Any:
        """Run a statement with `values` for its question marks; raises as :meth:`asked`."""
        return self.asked(lambda: self.connection.execute(sql, values or None), file, expected)

    def fetch(self, sql: str) -> dict[str, NDArray[Any]]:
        """Return a query's columns; NULL is NaN, -1 in a column of integers."""
        columns = self.asked(lambda: self.connection.execute(sql).fetchnumpy())
        plain = {}
        for key, column in columns.items():
            whole = column.dtype.kind in "iu"
            fill = -1 if whole else np.nan
            filled = column.filled(fill) if isinstance(column, np.ma.MaskedArray) else column
            plain[key] = filled.astype(np.int64) if whole else filled
        return plain

    def asked(self, ask: Callable[[], Found], file: int = 0, expected: str = "") -> Found:
        """Return the answer of a call to the database, whose errors are those of a file.

        Parameters
        ----------
        file : the place of the file that is read.
        expected : what should have come out, where it is not the file that is at fault.

        Raises DataError for each of its errors; it names the file.
        """
        try:
            return ask()
        except duckdb.Error as error:
            raise self._refused(error, self._files[file], expected) from error

    def _open(self) -> None:
        self.connection = duckdb.connect(
            f"{self._folder}/rows.db",
            config={
                "memory_limit": self._memory,
                # Of several, each takes parts of a file, and DuckDB 2.0 does not always put
                # their rows into a table in the file's order.
                "threads": 1,
                "temp_directory": f"{self._folder}/spilled",
                # Nothing is fetched from another host.
                "autoinstall_known_extensions": False,
                "autoload_known_extensions": False,
            },
        )
        # A time without a zone counts as UTC, on every machine.
        self.connection.execute("SET TimeZone = 'UTC'")

    def _refused(self, error: Exception, path: Path, expected: str) -> DataError:
        text = str(error)
        if isinstance(error, duckdb.OutOfMemoryException):
            return DataError(
                f"{path}: does not fit {self._memory} of memory, or the disk of "
                f"{tempfile.gettempdir()} is full. Raise {spelt('memory')}, or name another folder "
                "in TMPDIR"
            )
        first = cut(text.splitlines()[0] if text else type(error).__name__)
        if expected:
            return DataError(f"{path}: cannot be imported: got {first!r}, expected {expected}")
        line = re.search(r"CSV Error on Line: (\d+)\n(?:Original Line: (.*)\n)?", text)
        if line is None:
            return DataError(f"{path}: cannot be read ({first}). Check the file")
        where = f"{path}, line {line[1]}: got {cut(line[2] or '')!r}"
        if columns := re.search(r"Expected Number of Columns: (\d+) Found: (\d+)", text):
            return DataError(
                f"{where}, {columns[2]} columns, expected {columns[1]}. Correct it, or leave such "
                f"lines out with {spelt('bad-lines', 'drop')}"
            )
        if "unicode" in text or "utf-8" in text:
            return DataError(
                f"{where}, expected text in UTF-8. Say how it is written: "
                f"{spelt('encoding', 'latin-1')}"
            )
        why = cut(text[line.end() :].partition("\n")[0])
        way = f"{spelt('bad-lines', 'drop')} leaves such lines out"
        return DataError(f"{where}: {why} Correct it, or {way}")
