"""Rows of new recordings, block by block: of tables in files, and of a DataFrame in memory.

A table is read into a database on disk, as an import reads it, so memory holds one block of it.
"""

import itertools
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from fedsub_core.errors import DataError, cut, listed
from fedsub_core.options import suggestion
from fedsub_core.spelling import spelt
from fedsub_data.importing.cells import numbers, texts, times
from fedsub_data.importing.first_rows import check_unit_rows
from fedsub_data.importing.names import Names
from fedsub_data.importing.options import NONE, ImportOptions
from fedsub_data.importing.roles import EMPTY, LABELS, TIMES, Roles, is_number, plain
from fedsub_data.importing.source import NO_UNITS, OpenSource, Rows
from fedsub_data.importing.tables import TableSource

#: Rows that are fetched together.
BLOCK = 1 << 16
#: Rows of a DataFrame by which it is found what a column is.
_SAMPLED = 1000
#: A note names no more columns.
_LISTED = 8


class Recordings(OpenSource, Protocol):
    """A source of recordings, each the rows of one file; its `people` are the files' names."""

    def blocks(self, file: int, size: int = BLOCK) -> Iterator[Rows]:
        """Yield a recording's rows in their order, `size` at a time; times are in its own unit."""
        ...


def recording_roles(
    columns: Mapping[str, Sequence[str | None]],
    features: Sequence[str],
    options: ImportOptions,
    where: str,
) -> Roles:
    """Return the roles of a recording's columns: the model's channels by name, and the time.

    Parameters
    ----------
    columns : the first rows' texts by column; None is no value.
    features : the channels that the model reads.
    where : the file, for messages.

    Raises DataError where a channel or the named time is missing, or the first rows hold units.
    """
    names = list(columns)
    if lacking := [name for name in features if name not in columns]:
        hint = suggestion(lacking[0], names)
        raise DataError(
            f"{where}: got columns {', '.join(names)}, expected {', '.join(lacking)}, too, which "
            f"the model was trained on.{hint}"
        )
    rest = [name for name in names if name not in features]
    time = options.time or next(
        (name for word in TIMES for name in rest if plain(name) == word), NONE
    )
    if time not in (*rest, NONE):
        hint = suggestion(time, rest)
        raise DataError(
            f"{where}: time: got {time!r}, expected one of the columns {', '.join(rest)}, or "
            f"{NONE}.{hint}"
        )
    timed = None if time == NONE else time
    notes = [f"Guessed: {spelt('time', time)}."] if timed and not options.time else []
    labels = [name for name in rest if plain(name) in LABELS and name != timed]
    if labels:
        notes.append(f"Not used: {listed(map(repr, labels), _LISTED)}, which may hold labels.")
    if others := [name for name in rest if name not in (timed, *labels)]:
        notes.append(f"Not read: {listed(map(repr, others), _LISTED)}, no channels of the model.")
    read = {name: _are_numbers(columns[name]) for name in (*features, timed) if name is not None}
    check_unit_rows(read, columns, timed, options, where)
    # The table's reader selects a label of each row. It is not looked at.
    return Roles(None, features[0], timed, tuple(features), tuple(notes))


def _are_numbers(values: Sequence[str | None]) -> list[bool | None]:
    return [None if v is None or v.strip().lower() in EMPTY else is_number(v) for v in values]


class TableRecordings(TableSource):
    """Recordings in files of tables; a :class:`Recordings`.

    `channels`: the channels that the model reads.

    Raises DataError where a file cannot be read as a table, lacks a channel, or changes meanwhile.
    """

    def __init__(
        self, files: Sequence[Path], channels: Sequence[str], options: ImportOptions
    ) -> None:
        self._channels = tuple(channels)
        super().__init__(files, replace(options, subject=""))
        if self.time and options.backwards == "sort":
            self._db.run(
                "CREATE TABLE ordered AS SELECT rowid AS r, * FROM rows WHERE false",
                expected="a table of rows in order of time",
            )
            for begin, end in self._ends():
                self._db.run(
                    "INSERT INTO ordered SELECT rowid, * FROM rows WHERE rowid >= "
                    f"{begin} AND rowid < {end} ORDER BY t NULLS LAST, rowid",
                    expected="rows in order of time",
                )

    def blocks(self, file: int, size: int = BLOCK) -> Iterator[Rows]:
        """Yield a recording's rows, `size` at a time."""
        begin, end = self._ends()[file]
        ordered = self.time is not None and self.options.backwards == "sort"
        row, table = ("r", "ordered") if ordered else ("rowid", "rows")
        columns = ", t" * (self.time is not None)
        columns += "".join(f", f{i}" for i in range(len(self.features)))
        for at in range(begin, end, size):
            got = self._db.fetch(
                f"SELECT rowid AS place, {row} AS r{columns} FROM {table} "
                f"WHERE rowid >= {at} AND rowid < {min(at + size, end)}"
            )
            order = np.argsort(got["place"])
            x = np.stack([got[f"f{i}"][order] for i in range(len(self.features))], axis=1)
            t = np.asarray(got["t"], np.float64)[order] if self.time else None
            yield rows_of(self.people[file], file, got["r"][order] - begin, t, x)

    def _ends(self) -> list[tuple[int, int]]:
        """Return the first row of each file in the database, and the one behind its last."""
        count = self._db.run("SELECT count(*) FROM rows").fetchone()[0]
        starts = [*map(int, self._starts), int(count)]
        return list(itertools.pairwise(starts))

    def _roles_of(self, sample: Mapping[str, Sequence[str | None]], named: Names) -> Roles:
        return recording_roles(sample, self._channels, self.options, str(self._files[0]))

    def _by_name(
        self, named: Names, types: Collection[str]
    ) -> tuple[Sequence[str | None], Sequence[str | None]]:
        return [path.name for path in self._files], [None] * len(self._files)

    def _name(self) -> None:
        """Name the recordings; there are no people and no classes to be found."""
        self.people, self.labels = tuple(path.name for path in self._files), ()
        self._recordings = 1


class FrameRecording:
    """A recording in a DataFrame, or in anything with columns; a :class:`Recordings`.

    Raises DataError where it is empty or lacks a channel.
    """

    labels: tuple[str, ...] = ()
    rising: tuple[str, ...] = ()
    units = NO_UNITS

    def __init__(self, frame: Any, channels: Sequence[str], options: ImportOptions) -> None:
        where = "the table"
        self.people: tuple[str, ...] = (where,)
        self._frame = frame
        columns = {str(name): np.asarray(frame[name]) for name in frame.columns}
        sample = {name: list(texts(column[:_SAMPLED])) for name, column in columns.items()}
        roles = recording_roles(sample, channels, options, where)
        self.features, self.time, self.notes = roles.features, roles.time, list(roles.notes)
        self._x = np.stack([numbers(columns[name]) for name in self.features], axis=1)
        if not len(self._x):
            raise DataError(f"{where}: got no rows, expected some")
        read = None if self.time is None else times(columns[self.time], options.dates)
        self._t: NDArray[np.float64] | None = None if read is None else read.t
        self.ticks = read is not None and read.named is None
        self._order = np.arange(len(self._x))
        if self._t is not None and options.backwards == "sort":
            self._order = np.argsort(self._t, kind="stable")

    def blocks(self, file: int, size: int = BLOCK) -> Iterator[Rows]:
        """Yield the recording's rows, `size` at a time."""
        for at in range(0, len(self._order), size):
            row = self._order[at : at + size]
            t = None if self._t is None else self._t[row]
            yield rows_of(self.people[file], file, row, t, self._x[row])

    def rows(self) -> Iterator[Rows]:
        """Yield the recording's rows at once."""
        yield from self.blocks(0, len(self._x))

    def place(self, file: int, row: int, column: str | None) -> str:
        """Return the place of a value, and the value, in words."""
        where = f"{self.people[file]}, row {row + 1}"
        if column is None:
            return where
        return f"{where}, column {column!r}: got {cut(self._frame[column].iloc[row])!r}"

    def lost(self) -> dict[Any, int]:
        """Return nothing: every row belongs to the recording."""
        return {}

    def close(self) -> None:
        """Hold nothing open."""


def rows_of(person: str, file: int, row: Any, t: Any, x: Any) -> Rows:
    """Return rows of one file, without labels; `x` is float32 [n, F]."""
    count = len(row)
    return Rows(
        person,
        np.full(count, file, np.int64),
        np.asarray(row, np.int64),
        np.zeros(count, np.int64),  # one label, which is not looked at
        t,
        np.ascontiguousarray(x, np.float32),
    )
