"""CSV, TSV and Parquet, read as a stream by DuckDB into a database on disk.

Each file is parsed once. Columns that are not needed are not read, numbers become float32, and the
rows lie in a temporary database in the files' order, so a row's number is its line. People's rows
are then fetched a few people at a time. Memory is bounded by ``memory`` and by one person's rows.
"""

import shutil
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np

from fedsub_core.cores import usable_cores
from fedsub_core.errors import DataError
from fedsub_core.spelling import spelt
from fedsub_data.importing.client_ids import client_ids
from fedsub_data.importing.columns import Columns
from fedsub_data.importing.database import Database
from fedsub_data.importing.dropped import Why
from fedsub_data.importing.files import people_of
from fedsub_data.importing.heads import decimal_of
from fedsub_data.importing.labels import classes_of
from fedsub_data.importing.layout import SensorLayout
from fedsub_data.importing.names import Names, names_of
from fedsub_data.importing.options import ImportOptions
from fedsub_data.importing.parts import code_recordings
from fedsub_data.importing.roles import Roles, roles
from fedsub_data.importing.source import Rows, nobody_in
from fedsub_data.importing.table_files import TableFiles
from fedsub_data.importing.table_times import TableTimes

#: Rows of several people that are fetched together; one person's are never parted.
AT_ONCE = 1_000_000


class TableSource:
    """Rows of tables in files; a :class:`fedsub_data.importing.source.Source`.

    Parameters
    ----------
    folder : of unpacked files, to be removed at the end.
    layout : that names the columns; None: they have their own names.

    To be closed: the database lies in a temporary folder that only its owner can read.

    Raises DataError where a file cannot be read as a table, lacks a column that others have, or
    changes meanwhile.
    """

    def __init__(
        self,
        files: Sequence[Path],
        options: ImportOptions,
        folder: Path | None = None,
        layout: SensorLayout | None = None,
    ) -> None:
        self._folder = folder
        self.options, self._files = options, list(files)
        self.notes: list[str] = []
        self._db = Database(self._files, options.memory)
        try:
            self._tables = TableFiles(self._files, options, self._db, layout)
            with self._tables.unchanged:
                self._stage()
            # What follows asks for an order.
            cores = usable_cores()
            self._db.run(f"SET threads = {cores}", expected=f"a database of {cores} threads")
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Remove the database, and the folder that was given to it."""
        self._db.close()
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)

    def rows(self) -> Iterator[Rows]:
        """Yield each person's rows, in the order in which people first appear."""
        columns = "".join(f", f{i}" for i in range(len(self.features)))
        timed = "".join(f", {column}" for column in self._times.names)
        several = self._roles.recording or self._roles.part
        recording = ", recordings.code AS recording" if several else ""
        joined = "LEFT JOIN recordings USING (recording) " if recording else ""
        for first, last in self._batches():
            got = self._db.fetch(
                f"SELECT who.code AS who, rows.rowid AS r, y.code AS y{recording}{timed}{columns} "
                f"FROM rows JOIN who USING (subject) LEFT JOIN y USING (label) {joined}"
                f"WHERE who.code BETWEEN {first} AND {last}"
            )
            file = np.searchsorted(self._starts, got["r"], side="right") - 1
            own = got["recording"] if recording else 0
            # A recording of a file counts as a file; the last one is of rows that name none.
            segment = file * self._recordings + own % self._recordings
            order = np.lexsort((got["r"], segment, got["who"]))
            file, segment = file[order], segment[order]
            who, r, y = (np.asarray(got[key])[order] for key in ("who", "r", "y"))
            t = np.asarray(got["t"], np.float64)[order] if self._roles.time else None
            named = np.asarray(got["named"], np.bool_)[order] if self._times.dated else None
            x = np.empty((len(r), len(self.features)), np.float32)
            for i in range(len(self.features)):
                x[:, i] = got[f"f{i}"][order]
            del got
            row = r - self._starts[file]
            ends = np.searchsorted(who, np.arange(first, last + 2))
            for code, begin, end in zip(range(first, last + 1), ends, ends[1:], strict=False):
                mine = slice(int(begin), int(end))
                times = None if t is None else t[mine]
                of = Rows(self.people[code], segment[mine], row[mine], y[mine], times, x[mine])
                yield self._times.read(of, None if named is None else named[mine])

    def place(self, file: int, row: int, column: str | None) -> str:
        """Return the place of a value, and the value, in words; the file is read once more."""
        return self._tables.place(file // self._recordings, row, column)

    def lost(self) -> dict[Why, int]:
        """Return rows of nobody, and lines that could not be read."""
        nobody = self._db.run("SELECT count(*) FROM rows WHERE subject IS NULL").fetchone()
        assert nobody is not None
        bad = sum(len(self._tables.rejected(file)) for file in self._tables.forms)
        return {Why.NOBODY: int(nobody[0]), Why.BAD_LINES: bad}

    def _stage(self) -> None:
        """Read all files into the database."""
        sample, types = self._tables.sample(0), self._tables.types(0)
        named = names_of(self._files, self.options)
        self._roles = self._roles_of(sample, named)
        self.notes += self._roles.notes
        self.features, self.time = self._roles.features, self._roles.time
        self.rising = self._roles.rising
        owners, labels = self._by_name(named, types)
        numbers = [f"f{i} FLOAT" for i in range(len(self.features))]
        names = [name for name in (*self.features, self.time) if name is not None]
        decimal, guess = decimal_of([sample[name] for name in names], self.options)
        self.notes += guess
        columns = Columns(self._roles, types, decimal, self.options.date_form)
        self._times = TableTimes(
            columns, sample, self._tables, self.options, lambda f, r: self.place(f, r, self.time)
        )
        self.ticks, columns = self._times.ticks, self._times.columns
        self.notes += self._times.notes
        texts = ["subject VARCHAR", "label VARCHAR", "recording VARCHAR"]
        declared = ", ".join([*texts, *self._times.declared, *numbers])
        self._db.run(f"CREATE TABLE rows ({declared})")
        starts = [0]
        for i, _ in enumerate(self._files):
            if i:
                where = str(self._files[i])
                self._roles.check_columns(self._tables.types(i), where, str(self._files[0]))
            own = columns.converted(self._tables.factors(i, names))
            selected = own.selected(owners[i], labels[i], self.ticks)
            skipped = f" OFFSET {self.options.skip}" if self.options.skip else ""
            # Words of labels are to be named.
            relation = f"{self._tables.relation(i, empty=('',))}{skipped}"
            self._db.run(f"INSERT INTO rows SELECT {selected} FROM {relation}", i)
            starts.append(int(self._db.run("SELECT count(*) FROM rows").fetchone()[0]))
        self._starts = np.array(starts[:-1], np.int64)
        if not starts[-1]:
            raise DataError(f"{self._files[0]}: got no rows, expected some")
        if empty := [str(self._files[i]) for i in np.flatnonzero(np.diff(starts) == 0)]:
            self.notes.append(nobody_in(empty))
        self.notes += self._tables.notes()
        self.units: Mapping[str, str] = self._tables.units(0)
        self._name()
        self.notes += self._times.check(self._db, self._place_of)

    def _place_of(self, row: int) -> str:
        """Return the place of the time of a row of the database, and the time, in words."""
        file = int(np.searchsorted(self._starts, row, side="right")) - 1
        own = row - int(self._starts[file])
        return self.place(file * self._recordings, own, self.time)

    def _roles_of(self, sample: Mapping[str, Sequence[str | None]], named: Names) -> Roles:
        """Return the roles of columns, of the first rows' texts by column."""
        return roles(sample, self.options, str(self._files[0]), named)

    def _by_name(
        self, named: Names, types: Collection[str]
    ) -> tuple[Sequence[str | None], Sequence[str | None]]:
        """Return person and class of each file, where no column says them."""
        nothing = [None] * len(self._files)
        used = {"subject"} if self._roles.subject is None else set[str]()
        by_name = self._roles.label is None and not self.options.intervals
        used |= {"label"} if by_name else set()
        self.notes += named.guessed(used | ({"recording", "sensor"} if used else set()))
        labels = named.values["label"] if "label" in used else nothing
        if "subject" not in used:
            return nothing, labels
        if "subject" in named.values:
            return named.values["subject"], labels
        if len(self._files) == 1 or "label" in used:
            got = f"columns {', '.join(types)}" if len(self._files) == 1 else "names of classes"
            raise DataError(
                f"{self._files[0]}: got {got}, expected one with the person of each row. Name it "
                f"with {spelt('subject', 'COLUMN')}, or import one file for each person; "
                f"{spelt('from-name')} says where the person stands in its name"
            )
        self.notes.append("Guessed: each file is a person, with the file's name.")
        return people_of(self._files), labels

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
        self._recordings, self.part_of = code_recordings(self._db, self._roles.part)
        who = {text: codes[client] for text, client in ids.items()}
        place = {name: at for at, name in enumerate(self.labels)}
        y = {text: place[name] for text, name in names.items() if name is not None}
        for table, what, coded in (("who (subject", "people", who), ("y (label", "classes", y)):
            self._db.run(f"CREATE TABLE {table} VARCHAR, code INTEGER)")
            into, expected = table.split()[0], f"a number for each of its {what}"
            for pair in coded.items():
                self._db.run(f"INSERT INTO {into} VALUES (?, ?)", values=pair, expected=expected)

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
