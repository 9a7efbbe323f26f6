"""What a source of rows is: a table, files of arrays, arrays in memory."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from fedsub_core.errors import listed
from fedsub_core.spelling import spelt
from fedsub_data.importing.dropped import Why


@dataclass(frozen=True, eq=False)
class Rows:
    """One person's rows, in the order of the files and of their lines.

    Parameters
    ----------
    person : client's id.
    file, row : int64 [n], index of the file, and the row's number in it, from 0.
    y : int64 [n], index into the source's labels; -1 where there is none.
    t : float64 [n] or None, in the source's unit; NaN where it cannot be read.
    x : float32 [n, F] or [n, F, time]; NaN where a value is missing, infinite where it is text.
    """

    person: str
    file: NDArray[np.int64]
    row: NDArray[np.int64]
    y: NDArray[np.int64]
    t: NDArray[np.float64] | None
    x: NDArray[np.float32]

    def __len__(self) -> int:
        return len(self.y)

    @property
    def times(self) -> NDArray[np.float64]:
        """Times of rows that have them, float64 [n]."""
        assert self.t is not None
        return self.t

    def part(self, rows: NDArray[np.bool_] | NDArray[np.int64] | slice) -> Rows:
        """Return some of the rows, by their indices or a mask."""
        t = None if self.t is None else self.t[rows]
        own = (self.file[rows], self.row[rows], self.y[rows], t, self.x[rows])
        return Rows(self.person, *own)

    def at(self, t: NDArray[np.float64]) -> Rows:
        """Return the rows at other times."""
        return replace(self, t=t)


#: The units of a source that does not say them.
NO_UNITS: Mapping[str, str] = {}


class Source(Protocol):
    """Where rows come from, person by person; may be gone through several times.

    Parameters
    ----------
    features, labels : names of the columns of ``x``, and of the codes of ``y``.
    people : ids, in the order in which their rows come.
    time : the column of time; None: the order of rows is all that is known.
    rising : features that were guessed and rise in the first rows as a time does.
    ticks : whether time is in numbers, of a unit that is to be found, and no date.
    units : of columns, by name, where the source says them.
    notes : what was guessed, renamed or left out before the first row, in sentences.
    """

    features: tuple[str, ...]
    rising: tuple[str, ...]
    labels: tuple[str, ...]
    people: tuple[str, ...]
    time: str | None
    ticks: bool
    units: Mapping[str, str]
    notes: list[str]

    def rows(self) -> Iterator[Rows]:
        """Yield each person's rows."""
        ...

    def place(self, file: int, row: int, column: str | None) -> str:
        """Return the place of a value, and the value, in words: file, line, column."""
        ...

    def lost(self) -> dict[Why, int]:
        """Return rows that belong to nobody, by why they are dropped."""
        ...


class OpenSource(Source, Protocol):
    """A source that holds files or memory until it is closed."""

    def close(self) -> None:
        """Let go of what it holds."""
        ...


class There(Protocol):
    """A federation that is there already, to which rows are added."""

    def rows(self, source: Source) -> Iterator[Rows]:
        """Yield everybody's samples as rows of the source's classes, -1 for others."""
        ...


def nobody_in(files: Sequence[str]) -> str:
    """Return the sentence on files in which there is no row: whose they are is left out."""
    return f"Left out, as there is no row in it: {listed(files, 5)}."


class NarrowedSource:
    """Rows with some of a source's features; a :class:`fedsub_data.importing.source.Source`.

    Parameters
    ----------
    source : where the rows come from; stays open.
    features : those that are kept, in the source's order.
    notes : why the others are not, in sentences.
    """

    def __init__(self, source: Source, features: Sequence[str], notes: Sequence[str]) -> None:
        self._source = source
        #: Indices of the features that are kept.
        self.at = [source.features.index(name) for name in features]
        self.features = tuple(features)
        self.rising = tuple(name for name in source.rising if name in features)
        self.labels, self.people = source.labels, source.people
        self.time, self.ticks, self.units = source.time, source.ticks, source.units
        both = source.features, features
        before, now = (f"Guessed: {spelt('features', ','.join(names))}." for names in both)
        self.notes = [now if name == before else name for name in source.notes] + list(notes)

    def rows(self) -> Iterator[Rows]:
        """Yield each person's rows."""
        for rows in self._source.rows():
            yield replace(rows, x=rows.x[:, self.at])

    def place(self, file: int, row: int, column: str | None) -> str:
        """Return a value's place and the value, in words."""
        return self._source.place(file, row, column)

    def lost(self) -> dict[Why, int]:
        """Return the counts of rows that belong to nobody, by reason."""
        return self._source.lost()


def file_of(source: Source, file: int) -> str:
    """Return a file's name."""
    return source.place(file, 0, None).rpartition(", ")[0]
