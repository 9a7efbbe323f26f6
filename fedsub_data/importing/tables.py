"""CSV, TSV and Parquet, read as a stream by DuckDB into a database on disk.

Each file is parsed once. Columns that are not needed are not read, numbers become float32, and the
rows lie in a temporary database in the files' order, so a row's number is its line. People's rows
are then fetched a few people at a time. Memory is bounded by ``memory`` and by one person's rows.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from fedsub_core.cores import usable_cores
from fedsub_core.errors import DataError, cut
from fedsub_core.spelling import spelt
from fedsub_data.importing.client_ids import client_ids
from fedsub_data.importing.columns import Columns
from fedsub_data.importing.database import Database
from fedsub_data.importing.dropped import Why
from fedsub_data.importing.files import TEXT, Unchanged, kind_of, people_of
from fedsub_data.importing.labels import classes_of
from fedsub_data.importing.options import ImportOptions
from fedsub_data.importing.roles import Roles, roles
from fedsub_data.importing.source import Rows, nobody_in
from fedsub_data.importing.text_files import EMPTY, Dialect, dialect, line_of, literal, name

#: Rows of several people that are fetched together; one person's are never parted.
AT_ONCE = 1_000_000
#: Rows by which it is found what a column is.
_SAMPLED = 1000


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
        self._db = Database(self._files, options.memory)
        try:
            with self._unchanged:
                self._stage()
            # What follows asks for an order.
            cores = usable_cores()
            self._db.run(f"SET threads = {cores}", expected=f"a database of {cores} threads")
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Remove the database."""
        self._db.close()

    def rows(self) -> Iterator[Rows]:
        """Yield each person's rows, in the order in which people first appear."""
        columns = "".join(f", f{i}" for i in range(len(self.features)))
        timed = ", t" if self.time else ""
        for first, last in self._batches():
            got = self._db.fetch(
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
        """Return the place of a value, and the value, in words; the file is read once more."""
        path, row = self._files[file], row + self.options.skip
        where = f"{path}, row {row + 1}"
        if self._text:
            where = f"{path}, line {line_of(path, self._forms[file], row, self._rejected(file))}"
        if column is None:
            return where
        value = self._db.run(
            f"SELECT {name(column)}::VARCHAR FROM {self._relation(file)} LIMIT 1 OFFSET {row}", file
        ).fetchone()
        self._unchanged.check()
        got = "nothing" if value is None or value[0] is None else repr(cut(value[0]))
        comma = isinstance(value, tuple) and re.fullmatch(r"[+-]?\d*,\d+", str(value[0]).strip())
        add = f", a decimal comma: add {spelt('decimal', ',')}"
        hint = add if comma and self.options.decimal == "." else ""
        return f"{where}, column {column!r}: got {got}{hint}"

    def lost(self) -> dict[Why, int]:
        """Return rows of nobody, and lines that could not be read."""
        nobody = self._db.run("SELECT count(*) FROM rows WHERE subject IS NULL").fetchone()
        assert nobody is not None
        bad = sum(len(self._rejected(file)) for file in self._forms)
        return {Why.NOBODY: int(nobody[0]), Why.BAD_LINES: bad}

    def _stage(self) -> None:
        """Read all files into the database."""
        self._roles, types = self._roles_of(0)
        self.notes += self._roles.notes
        self.features, self.time = self._roles.features, self._roles.time
        self.rising = self._roles.rising
        named = self._roles.subject is None
        owners = people_of(self._files, self.options.subject_from_name) if named else []
        if named and not self.options.subject_from_name:
            if len(self._files) == 1:
                raise DataError(
                    f"{self._files[0]}: got columns {', '.join(types)}, expected one with the "
                    f"person of each row. Name it with {spelt('subject', 'COLUMN')}, or import one "
                    "file for each person"
                )
            self.notes.append("Guessed: each file is a person, with the file's name.")
        numbers = ", ".join(f"f{i} FLOAT" for i in range(len(self.features)))
        timed = "t DOUBLE, " if self.time else ""
        self._db.run(f"CREATE TABLE rows (subject VARCHAR, label VARCHAR, {timed}{numbers})")
        columns = Columns(self._roles, types, self.options.decimal, self.options.dates)
        self.ticks = self.time is not None and columns.ticks(self._sample[self.time])
        starts = [0]
        for i, _ in enumerate(self._files):
            if i:
                where = str(self._files[i])
                self._roles.check_columns(self._types(i), where, str(self._files[0]))
            selected = columns.selected(owners[i] if owners else None, self.ticks)
            skipped = f" OFFSET {self.options.skip}" if self.options.skip else ""
            # Words of labels are to be named.
            relation = f"{self._relation(i, empty=('',))}{skipped}"
            self._db.run(f"INSERT INTO rows SELECT {selected} FROM {relation}", i)
            count = self._db.run("SELECT count(*) FROM rows").fetchone()
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
                f"{form.encoding}. To change this: {spelt('encoding')}."
            )
        self._name()

    def _name(self) -> None:
        """Find who there is, and which classes; give each a number."""
        people = self._db.run(
            "SELECT subject, count(*) FROM rows WHERE subject IS NOT NULL GROUP BY subject "
            "ORDER BY min(rowid)"
        ).fetchall()
        ids, renamed = client_ids([text for text, _ in people])
        self.notes += renamed
        codes = {client: code for code, client in enumerate(dict.fromkeys(ids.values()))}
        self.people = tuple(codes)
        self._counts = [0] * len(codes)
        for text, count in people:
            self._counts[codes[ids[text]]] += count
        counts = dict(
            self._db.run(
                "SELECT label, count(*) FROM rows WHERE label IS NOT NULL GROUP BY label "
                "ORDER BY label"
            ).fetchall()
        )
        names, self.labels, notes = classes_of(counts, self.options, str(self._files[0]))
        self.notes += notes
        self._db.run("CREATE TABLE who (subject VARCHAR, code INTEGER)")
        self._db.run("CREATE TABLE y (label VARCHAR, code INTEGER)")
        for text, client in ids.items():
            values, expected = [text, codes[client]], "a number for each of its people"
            self._db.run("INSERT INTO who VALUES (?, ?)", values=values, expected=expected)
        for text, label in names.items():
            if label is not None:
                values = [text, self.labels.index(label)]
                expected = "a number for each of its classes"
                self._db.run("INSERT INTO y VALUES (?, ?)", values=values, expected=expected)

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
        """Return the roles of a file's columns, and DuckDB's types of them by name."""
        types = self._types(file)
        texts = ", ".join(f"{name(column)}::VARCHAR" for column in types)
        first = f"SELECT {texts} FROM {self._relation(file)}"
        first += f" LIMIT {_SAMPLED} OFFSET {self.options.skip}"
        sample = self._db.run(first, file).fetchall()
        self._sample = {column: [row[i] for row in sample] for i, column in enumerate(types)}
        return roles(self._sample, self.options, str(self._files[file])), types

    def _types(self, file: int) -> dict[str, str]:
        """Return DuckDB's types of a file's columns, by name."""
        sql = f"DESCRIBE SELECT * FROM {self._relation(file)}"
        return {str(row[0]): str(row[1]) for row in self._db.run(sql, file).fetchall()}

    def _relation(self, file: int, empty: Sequence[str] = EMPTY) -> str:
        """Return the file as SQL has it; all columns of text are text, `empty` ones NULL."""
        path = str(self._files[file])
        if set(path) & set("*?["):
            raise DataError(f"{path}: got * ? or [ in a file's name, expected none. Rename it")
        if not self._text:
            return f"read_parquet({literal(path)})"
        if file not in self._forms:
            self._forms[file] = self._db.asked(
                lambda: dialect(self._db.connection, self._files[file], self.options), file
            )
        relation = self._forms[file].relation(self.options.bad_lines, empty)
        return relation.replace("?", literal(path), 1)

    def _rejected(self, file: int) -> set[int]:
        """Return the numbers of lines of a file that were dropped."""
        if self.options.bad_lines != "drop":
            return set()
        lines = self._db.run(
            "SELECT DISTINCT line FROM reject_errors JOIN reject_scans USING (scan_id, file_id) "
            f"WHERE file_path = {literal(str(self._files[file]))}"
        ).fetchall()
        return {int(line) for (line,) in lines}
