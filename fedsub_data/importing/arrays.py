"""Rows that lie in memory: arrays, columns of a table, DataFrames."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedsub_core.errors import DataError, cut
from fedsub_data.importing.cells import Times, numbers, texts, times
from fedsub_data.importing.client_ids import client_ids
from fedsub_data.importing.dropped import Why
from fedsub_data.importing.labels import classes_of
from fedsub_data.importing.names import NO_NAMES, Names
from fedsub_data.importing.options import ImportOptions
from fedsub_data.importing.roles import roles
from fedsub_data.importing.source import NO_UNITS, Rows, nobody_in
from fedsub_data.importing.zones import WallClock, check_named

#: Rows by which it is found what a column is.
_SAMPLED = 1000


@dataclass(frozen=True, eq=False)
class Part:
    """Rows of one file, or of one table in memory.

    Parameters
    ----------
    where : what it is called in messages.
    subjects, labels : of each row, objects [n] of text; None where there is none.
    times : of each row, or None.
    x : float32 [n, F] or [n, F, time]; NaN is missing, infinite is text.
    value : what stands in a row and column, for messages.
    skipped : rows before the first.
    recordings : int64 [n], the recording of each row, from 0; None: the part is one.
    """

    where: str
    subjects: NDArray[Any]
    labels: NDArray[Any]
    times: Times | None
    x: NDArray[np.float32]
    value: Callable[[int, str], object] = field(default=lambda row, column: "no number")
    skipped: int = 0
    recordings: NDArray[np.int64] | None = None

    @property
    def clock(self) -> str:
        """How time is written, in words."""
        if self.times is None:
            return "no time"
        if self.times.of_day:
            return "times of a day"
        return "time in numbers" if self.times.named is None else "time in dates or seconds"


class ArraySource:
    """Rows of arrays; a :class:`fedsub_data.importing.source.Source`.

    Raises DataError where parts differ in shape or in how they write time, or hold no label.
    """

    units = NO_UNITS

    def __init__(
        self,
        parts: Sequence[Part],
        features: Sequence[str],
        time: str | None,
        options: ImportOptions,
        notes: Sequence[str] = (),
        rising: tuple[str, ...] = (),
    ) -> None:
        first = parts[0]
        for part in parts:
            if part.x.shape[1:] != first.x.shape[1:]:
                raise DataError(
                    f"{part.where}: got samples of shape {part.x.shape[1:]}, expected "
                    f"{first.x.shape[1:]} as in {first.where}. Window all alike"
                )
            if part.clock != first.clock:
                raise DataError(
                    f"{part.where}: got {part.clock}, expected {first.clock} as in {first.where}. "
                    "Write it for all alike"
                )
        self.features, self.time = tuple(features), time
        self.ticks = first.times is not None and first.times.named is None
        self.notes, self.rising = list(notes), rising
        if empty := [part.where for part in parts if not len(part.x)]:
            self.notes.append(nobody_in(empty))
        self._parts, self._options = list(parts), options
        of = [part.recordings for part in parts if part.recordings is not None and len(part.x)]
        self._recordings = 1 + max((int(codes.max()) for codes in of), default=0)
        subjects = np.concatenate([part.subjects for part in parts])
        ids, notes_on_ids = client_ids(
            list(dict.fromkeys(s for s in subjects.tolist() if s is not None))
        )
        self.notes += notes_on_ids
        self.people = tuple(dict.fromkeys(ids.values()))
        codes = {text: self.people.index(client) for text, client in ids.items()}
        self._who = np.array([codes.get(text, -1) for text in subjects.tolist()], np.int64)
        counts = Counter(y for part in parts for y in part.labels.tolist() if y is not None)
        names, self.labels, notes_on_labels = classes_of(counts, options, first.where)
        self.notes += notes_on_labels
        known = {t: -1 if n is None else self.labels.index(n) for t, n in names.items()}
        self.notes += self._check_named()
        self._y = [
            np.array([known.get(y, -1) for y in part.labels.tolist()], np.int64) for part in parts
        ]

    def _check_named(self) -> list[str]:
        """Return a sentence on a zone that is not needed; raises as `check_named`."""
        dated = [p.times.named for p in self._parts if p.times is not None and not p.times.of_day]
        named = [np.zeros(0, np.bool_), *(own for own in dated if own is not None)]
        count = int(np.concatenate(named).sum())

        def place() -> str:
            file = next(i for i, own in enumerate(named[1:]) if not own.all())
            return self.place(file * self._recordings, int(named[file + 1].argmin()), self.time)

        return check_named(count, sum(map(len, named)) - count, place, self._options)

    def rows(self) -> Iterator[Rows]:
        """Yield each person's rows."""
        clock = WallClock(
            self._options,
            any(part.times is not None and part.times.of_day for part in self._parts),
            lambda file, row: self.place(file, row, self.time),
        )
        lengths = [len(part.x) for part in self._parts]
        file = np.repeat(np.arange(len(lengths)), lengths)
        row = np.concatenate([np.arange(n) for n in lengths])
        y = np.concatenate(self._y)
        starts = np.concatenate(([0], np.cumsum(lengths)))
        own_code = [0 if p.recordings is None else p.recordings for p in self._parts]
        code_of = np.concatenate(
            [np.broadcast_to(c, n) for c, n in zip(own_code, lengths, strict=True)]
        )
        # A recording of a file counts as a file.
        segment = file * self._recordings + code_of
        order = np.lexsort((segment, self._who))
        ends = np.searchsorted(self._who[order], np.arange(len(self.people) + 1))
        for code, person in enumerate(self.people):
            mine = order[ends[code] : ends[code + 1]]
            own = [(self._parts[f], row[mine[file[mine] == f]]) for f in np.unique(file[mine])]
            x = np.concatenate([part.x[rows] for part, rows in own])
            times = [part.times.at(rows) for part, rows in own if part.times is not None]
            t = np.concatenate([one.t for one in times]) if times else None
            of = Rows(person, segment[mine], mine - starts[file[mine]], y[mine], t, x)
            named = [one.named for one in times if one.named is not None]
            yield clock.read(of, np.concatenate(named)) if named else of

    def place(self, file: int, row: int, column: str | None) -> str:
        """Return a value's place and the value, in words."""
        part = self._parts[file // self._recordings]
        where = f"{part.where}, row {row + 1 + part.skipped}"
        if column is None:
            return where
        got = part.value(row, column)
        return f"{where}, column {column!r}: got {cut(got) if isinstance(got, str) else got!r}"

    def lost(self) -> dict[Why, int]:
        """Return the counts of rows that belong to nobody, by reason."""
        return {Why.NOBODY: int((self._who < 0).sum())}

    def close(self) -> None:
        """Let go of the arrays."""
        self._parts = []


def from_columns(
    tables: Mapping[str, Mapping[str, NDArray[Any]]],
    owners: Sequence[str] | None,
    options: ImportOptions,
    named: Names = NO_NAMES,
) -> ArraySource:
    """Return the source of tables in memory.

    Parameters
    ----------
    tables : columns, each an array [n] of any type, by the table's name.
    owners : whose each table is, where no column says it.
    named : what names of files say.

    Raises DataError where columns are of mixed types, or what they are cannot be found.
    """
    first = next(iter(tables))
    tables = {
        where: {name: column[options.skip :] for name, column in columns.items()}
        for where, columns in tables.items()
    }
    sample = {name: texts(column[:_SAMPLED]) for name, column in tables[first].items()}
    by_role = roles({name: list(column) for name, column in sample.items()}, options, first, named)
    if by_role.subject is None and owners is None:
        raise DataError(
            f"{first}: got columns {', '.join(sample)}, expected one that says whose a row is. Say "
            "which with subject"
        )
    parts = []
    for i, (where, columns) in enumerate(tables.items()):
        by_role.check_columns(columns, where, first)
        n = len(columns[by_role.features[0]])
        if by_role.subject is not None:
            subjects = texts(columns[by_role.subject], where, by_role.subject)
        else:
            assert owners is not None
            subjects = np.full(n, owners[i], object)
        timed = by_role.time is not None
        t = times(columns[str(by_role.time)], options.date_form) if timed else None
        x = np.stack([numbers(columns[name]) for name in by_role.features], axis=1)
        if by_role.label is None:
            labels = np.full(n, named.of("label", i), object)
        else:
            labels = texts(columns[by_role.label], where, by_role.label, words=True)
        recordings = None
        if by_role.recording is not None:
            own = texts(columns[by_role.recording]).astype(str)
            recordings = np.unique(own, return_inverse=True)[1].astype(np.int64)
        part = Part(where, subjects, labels, t, x, _value(columns), options.skip, recordings)
        parts.append(part)
    return ArraySource(
        parts, by_role.features, by_role.time, options, by_role.notes, by_role.rising
    )


def _value(columns: Mapping[str, NDArray[Any]]) -> Callable[[int, str], object]:
    return lambda row, name: (
        cell.item() if isinstance(cell := columns[name][row], np.generic) else cell
    )
