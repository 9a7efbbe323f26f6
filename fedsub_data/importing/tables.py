"""CSV, TSV and Parquet, read as a stream by DuckDB into a database on disk.

Each file is parsed once. Columns that are not needed are not read, numbers become float32, and the
rows lie in a temporary database in the files' order, so a row's number is its line. People's rows
are then fetched a few people at a time. Memory is bounded by ``memory`` and by one person's rows.
"""

from __future__ import annotations

import re
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
from numpy.typing import NDArray

from fedsub_core.cores import usable_cores
from fedsub_core.errors import DataError, cut
from fedsub_data.importing.dropped import Why
from fedsub_data.importing.files import TEXT, Unchanged, kind_of, people_of
from fedsub_data.importing.options import ImportOptions
from fedsub_data.importing.roles import Roles, class_names, client_ids, is_number, roles
from fedsub_data.importing.source import Rows, nobody_in
from fedsub_data.importing.text_files import EMPTY, Dialect, dialect, line_of, literal, name

#: Rows of several people that are fetched together; one person's are never parted.
AT_ONCE = 1_000_000
#: Rows by which it is found what a column is.
_SAMPLED = 1000
_DATES = ("TIMESTAMP", "DATE")


class TableSource:
    """Rows of tables in files; a :class:`fedsub_data.importing.source.Source`.

    To be closed: the database lies in a temporary folder that only its owner can read.

    Raises
    ------
    DataError
        Where a file cannot be read as a table, lacks a column that others have, or changes
        meanwhile.
    """

    def __init__(self, files: Sequence[Path], options: ImportOptions) -> None:
        self.options, self._files, self._text = options, list(files), kind_of(files) == TEXT
        self._unchanged = Unchanged(files)
        self.notes: list[str] = []
        self._forms: dict[int, Dialect] = {}
        self._folder = tempfile.mkdtemp(prefix="fedsub-import-")
        try:
            self._db = duckdb.connect(
                f"{self._folder}/rows.db",
                config={
                    "memory_limit": options.memory,
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
            self._db.execute("SET TimeZone = 'UTC'")
            with self._unchanged:
                self._stage()
            self._db.execute(f"SET threads = {usable_cores()}")  # what follows asks for an order
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Remove the database."""
        with suppress(AttributeError):
            self._db.close()
        shutil.rmtree(self._folder, ignore_errors=True)

    def rows(self) -> Iterator[Rows]:
        """Yield each person's rows, in the order in which people first appear."""
        columns = "".join(f", f{i}" for i in range(len(self.features)))
        timed = ", t" if self.time else ""
        for first, last in self._batches():
            got = self._fetch(
                f"SELECT who.code AS who, rows.rowid AS r, y.code AS y{timed}{columns} FROM rows "
                "JOIN who USING (subject) LEFT JOIN y USING (label) "
                f"WHERE who.code BETWEEN {first} AND {last}"
            )
            order = np.lexsort((got["r"], got["who"]))
            who, r, y = (np.asarray(got[key])[order] for key in ("who", "r", "y"))
            t = np.asarray(got["t"], np.float64)[order] if self.time else None
            x = np.empty((len(r), len(self.features)), np.float32)
            for i in range(len(self.features)):
                x[:, i] = got[f"f{i}"][order]
            del got
            file = np.searchsorted(self._starts, r, side="right") - 1
            row = r - self._starts[file]
            ends = np.searchsorted(who, np.arange(first, last + 2))
            for code, begin, end in zip(range(first, last + 1), ends, ends[1:], strict=False):
                mine = slice(int(begin), int(end))
                own = None if t is None else t[mine]
                yield Rows(self.people[code], file[mine], row[mine], y[mine], own, x[mine])

    def place(self, file: int, row: int, column: str | None) -> str:
        """Return where a value stands and what it is; the file is looked at once more."""
        path = self._files[file]
        where = f"{path}, row {row + 1}"
        if self._text:
            where = f"{path}, line {line_of(path, self._forms[file], row, self._rejected(file))}"
        if column is None:
            return where
        found = self._run(
            f"SELECT {name(column)}::VARCHAR FROM {self._relation(file)} LIMIT 1 OFFSET {row}",
            file,
        ).fetchone()
        self._unchanged.check()
        got = "nothing" if found is None or found[0] is None else repr(cut(found[0]))
        comma = isinstance(found, tuple) and re.fullmatch(r"[+-]?\d*,\d+", str(found[0]).strip())
        hint = ", a decimal comma: add --decimal ," if comma and self.options.decimal == "." else ""
        return f"{where}, column {column!r}: got {got}{hint}"

    def lost(self) -> dict[Why, int]:
        """Return rows of nobody, and lines that could not be read."""
        one = self._run("SELECT count(*) FROM rows WHERE subject IS NULL").fetchone()
        assert one is not None
        bad = sum(len(self._rejected(file)) for file in self._forms)
        return {Why.NOBODY: int(one[0]), Why.BAD_LINES: bad}

    def _stage(self) -> None:
        """Read all files into the database."""
        self._roles, types = self._roles_of(0)
        self.notes += self._roles.notes
        self.features, self.time = self._roles.features, self._roles.time
        named = self._roles.subject is None
        owners = people_of(self._files, self.options.subject_from_name) if named else []
        if named and not self.options.subject_from_name:
            if len(self._files) == 1:
                raise DataError(
                    f"{self._files[0]}: got columns {', '.join(types)}, expected one with the "
                    "person of each row. Name it with --subject COLUMN, or import one file for "
                    "each person"
                )
            self.notes.append("Guessed: each file is a person, with the file's name.")
        columns = ", ".join(f"f{i} FLOAT" for i in range(len(self.features)))
        timed = "t DOUBLE, " if self.time else ""
        self._run(f"CREATE TABLE rows (subject VARCHAR, label VARCHAR, {timed}{columns})")
        self.ticks = self.time is not None and self._ticks(types)
        starts = [0]
        for i, _ in enumerate(self._files):
            if i:
                self._check_columns(i, types)
            parts = [
                f"{literal(owners[i])}::VARCHAR" if owners else self._subject(),
                f"{name(self._roles.label)}::VARCHAR",
            ]
            parts += [self._time_in(types)] if self.time else []
            parts += [self._number_in(one, types) for one in self.features]
            self._run(f"INSERT INTO rows SELECT {', '.join(parts)} FROM {self._relation(i)}", i)
            count = self._run("SELECT count(*) FROM rows").fetchone()
            assert count is not None
            starts.append(int(count[0]))
        self._starts = np.array(starts[:-1], np.int64)
        if not starts[-1]:
            raise DataError(f"{self._files[0]}: got no rows, expected some")
        if empty := [str(self._files[i]) for i in np.flatnonzero(np.diff(starts) == 0)]:
            self.notes.append(nobody_in(empty))
        if marked := [str(self._files[i]) for i, form in self._forms.items() if form.marked]:
            more = f" and {len(marked) - 1} more" if len(marked) > 1 else ""
            form = next(form for form in self._forms.values() if form.marked)
            self.notes.append(
                f"Skipped: a byte-order mark at the start of {marked[0]}{more}, read as "
                f"{form.encoding}. To change this: --encoding."
            )
        self._name()

    def _name(self) -> None:
        """Find who there is, and which classes; give each a number."""
        found = self._run(
            "SELECT subject, count(*) FROM rows WHERE subject IS NOT NULL GROUP BY subject "
            "ORDER BY min(rowid)"
        ).fetchall()
        ids, said = client_ids([text for text, _ in found])
        self.notes += said
        codes = {client: code for code, client in enumerate(dict.fromkeys(ids.values()))}
        self.people = tuple(codes)
        self._counts = [0] * len(codes)
        for text, count in found:
            self._counts[codes[ids[text]]] += count
        texts = [
            text
            for (text,) in self._run(
                "SELECT DISTINCT label FROM rows WHERE label IS NOT NULL ORDER BY label"
            ).fetchall()
        ]
        names = class_names(texts, self.options.no_labels, str(self._files[0]))
        self.labels = tuple(dict.fromkeys(one for one in names.values() if one is not None))
        self._run("CREATE TABLE who (subject VARCHAR, code INTEGER)")
        self._run("CREATE TABLE y (label VARCHAR, code INTEGER)")
        for text, client in ids.items():
            self._db.execute("INSERT INTO who VALUES (?, ?)", [text, codes[client]])
        for text, label in names.items():
            if label is not None:
                self._db.execute("INSERT INTO y VALUES (?, ?)", [text, self.labels.index(label)])

    def _batches(self) -> Iterator[tuple[int, int]]:
        """Yield first and last of the people who are fetched together."""
        first, rows = 0, 0
        for code, count in enumerate(self._counts):
            if code > first and rows + count > AT_ONCE:
                yield first, code - 1
                first, rows = code, 0
            rows += count
        if self._counts:
            yield first, len(self._counts) - 1

    def _roles_of(self, file: int) -> tuple[Roles, dict[str, str]]:
        """Return what the columns of a file are, and their types."""
        relation = self._relation(file)
        types = {
            str(row[0]): str(row[1])
            for row in self._run(f"DESCRIBE SELECT * FROM {relation}", file).fetchall()
        }
        texts = ", ".join(f"{name(column)}::VARCHAR" for column in types)
        sample = self._run(f"SELECT {texts} FROM {relation} LIMIT {_SAMPLED}", file).fetchall()
        self._sample = {one: [row[i] for row in sample] for i, one in enumerate(types)}
        return roles(self._sample, self.options, str(self._files[file])), types

    def _check_columns(self, file: int, types: dict[str, str]) -> None:
        """Refuse a file that lacks a column of the first's."""
        relation = self._relation(file)
        there = [row[0] for row in self._run(f"DESCRIBE SELECT * FROM {relation}", file).fetchall()]
        role = self._roles
        needed = [role.subject, role.label, role.time, *role.features]
        if lacking := [one for one in needed if one is not None and one not in there]:
            raise DataError(
                f"{self._files[file]}: got columns {', '.join(there)}, expected "
                f"{', '.join(lacking)} as in {self._files[0]}. Rename them, or import apart"
            )

    def _relation(self, file: int) -> str:
        """Return the file as SQL has it; all columns of text are text."""
        path = str(self._files[file])
        if set(path) & set("*?["):
            raise DataError(f"{path}: got * ? or [ in a file's name, expected none. Rename it")
        if not self._text:
            return f"read_parquet({literal(path)})"
        if file not in self._forms:
            self._forms[file] = self._asked(
                lambda: dialect(self._db, self._files[file], self.options), file
            )
        return self._forms[file].relation(self.options.bad_lines).replace("?", literal(path), 1)

    def _subject(self) -> str:
        """Return the column that says whose a row is as text in SQL; NULL where it is blank."""
        text = f"{name(str(self._roles.subject))}::VARCHAR"
        none = ", ".join(map(literal, EMPTY))
        return f"CASE WHEN trim({text}) IN ({none}) THEN NULL ELSE {text} END"

    def _ticks(self, types: dict[str, str]) -> bool:
        """Return whether time is in numbers."""
        assert self.time is not None
        there = [v for v in self._sample[self.time] if v is not None]
        if self._text:
            return not there or is_number(there[0])
        return not types[self.time].startswith(_DATES)

    def _time_in(self, types: dict[str, str]) -> str:
        """Return the column of time as seconds or ticks, float64, in SQL; NULL where it is none."""
        assert self.time is not None
        column = name(self.time)
        if self.ticks:
            text = f"replace({column}, ',', '.')" if self._comma(types[self.time]) else column
            return f"TRY_CAST({text} AS DOUBLE)"
        if self._text:
            column = f"TRY_CAST({column} AS TIMESTAMPTZ)"
        return f"epoch({column})"

    def _number_in(self, column: str, types: dict[str, str]) -> str:
        """Return a column as float32 in SQL: NULL where there is none, infinite where it is text.

        Text that spells infinity counts as text.
        """
        text = f"replace({name(column)}, ',', '.')" if self._comma(types[column]) else name(column)
        one = f"TRY_CAST({text} AS FLOAT)"
        return f"CASE WHEN {name(column)} IS NULL THEN NULL ELSE coalesce({one}, 'inf') END"

    def _comma(self, kind: str) -> bool:
        return self.options.decimal == "," and kind == "VARCHAR"

    def _rejected(self, file: int) -> set[int]:
        """Return the numbers of lines of a file that were dropped."""
        if self.options.bad_lines != "drop":
            return set()
        found = self._run(
            "SELECT DISTINCT line FROM reject_errors JOIN reject_scans USING (scan_id, file_id) "
            f"WHERE file_path = {literal(str(self._files[file]))}"
        ).fetchall()
        return {int(line) for (line,) in found}

    def _fetch(self, sql: str) -> dict[str, NDArray[Any]]:
        """Return a query's columns; NULL is NaN, -1 in a column of integers."""
        found = self._asked(lambda: self._db.execute(sql).fetchnumpy(), 0)
        plain = {}
        for key, column in found.items():
            whole = column.dtype.kind in "iu"
            fill = -1 if whole else np.nan
            filled = column.filled(fill) if isinstance(column, np.ma.MaskedArray) else column
            plain[key] = filled.astype(np.int64) if whole else filled
        return plain

    def _run(self, sql: str, file: int = 0) -> Any:
        return self._asked(lambda: self._db.execute(sql), file)

    def _asked(self, ask: Any, file: int) -> Any:
        """Ask the database; its errors are of the file."""
        try:
            return ask()
        except duckdb.Error as error:
            raise self._refused(error, self._files[file]) from error

    def _refused(self, error: Exception, path: Path) -> DataError:
        said = str(error)
        if isinstance(error, duckdb.OutOfMemoryException):
            return DataError(
                f"{path}: does not fit {self.options.memory} of memory, or the disk of "
                f"{tempfile.gettempdir()} is full. Raise --memory, or name another folder in TMPDIR"
            )
        line = re.search(r"CSV Error on Line: (\d+)\n(?:Original Line: (.*)\n)?", said)
        if line is None:
            first = said.splitlines()[0] if said else type(error).__name__
            return DataError(f"{path}: cannot be read ({cut(first)}). Check the file")
        where = f"{path}, line {line[1]}: got {cut(line[2] or '')!r}"
        if columns := re.search(r"Expected Number of Columns: (\d+) Found: (\d+)", said):
            return DataError(
                f"{where}, {columns[2]} columns, expected {columns[1]}. Correct it, or leave such "
                "lines out with --bad-lines drop"
            )
        if "unicode" in said or "utf-8" in said:
            return DataError(
                f"{where}, expected text in UTF-8. Say how it is written: --encoding latin-1"
            )
        why = cut(said[line.end() :].partition("\n")[0])
        return DataError(f"{where}: {why} Correct it, or --bad-lines drop leaves such lines out")
