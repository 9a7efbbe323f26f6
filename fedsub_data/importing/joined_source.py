"""Sensors of one recording, each with its own files and rate, joined on time.

A recording's rows are those of its fastest sensor, as they are. The others are interpolated between
their own rows, but never across a gap: such rows of the fastest are left out.
"""

import itertools
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from fedsub_core.errors import DataError
from fedsub_core.spelling import spelt
from fedsub_data.importing.cleaning import cleaned
from fedsub_data.importing.client_ids import client_ids
from fedsub_data.importing.clocks import clock_of
from fedsub_data.importing.dropped import Dropped, Why
from fedsub_data.importing.join_report import JoinReport
from fedsub_data.importing.labels import classes_of
from fedsub_data.importing.layout_table import LayoutTable
from fedsub_data.importing.options import ImportOptions
from fedsub_data.importing.recordings import in_time, repeated
from fedsub_data.importing.source import Rows
from fedsub_data.importing.time_unit import tick_seconds
from fedsub_data.importing.windowing import GAP_STEPS

#: A sensor so much faster than an earlier one, relatively, is the faster.
_FASTER = 1.05


class JoinedSource:
    """Rows of recordings whose sensors are joined; a :class:`fedsub_data.importing.source.Source`.

    Parameters
    ----------
    tables : by sensor, each with a file for each recording, in the recordings' order.
    owners : the person of each, those of one person side by side.
    classes : of each recording; None: a column or nothing says it.

    Raises DataError where sensors of a recording share no time, or count it differently.
    """

    rising: tuple[str, ...] = ()

    def __init__(
        self,
        tables: Mapping[str, LayoutTable],
        recordings: Sequence[Path],
        owners: Sequence[str],
        classes: Sequence[str] | None,
        options: ImportOptions,
    ) -> None:
        self._tables, self.recordings, self._options = dict(tables), list(recordings), options
        first = next(iter(tables.values()))
        self.time, self.ticks = first.time, first.ticks
        self.notes = list(dict.fromkeys(n for table in tables.values() for n in table.notes))
        own = (table.units.items() for table in tables.values())
        self.units: Mapping[str, str] = dict(itertools.chain(*own))
        self._features = [name for table in tables.values() for name in table.features]
        self._check()
        self._kept = self._chosen()
        self.features = tuple(self._features[i] for i in self._kept)
        ids, renamed = client_ids(list(dict.fromkeys(owners)))
        self.notes += renamed
        self._owners = [ids[owner] for owner in owners]
        self.people = tuple(dict.fromkeys(self._owners))
        self._labelled = next((name for name in tables if tables[name].labels), None)
        self.labels = tables[self._labelled].labels if self._labelled else ()
        self._class = np.full(len(recordings), -1, np.int64)
        if classes is not None:
            self._labelled = None
            names, self.labels, notes = classes_of(Counter(classes), options, str(recordings[0]))
            self.notes += notes
            known = {n: -1 if c is None else self.labels.index(c) for n, c in names.items()}
            self._class = np.array([known[each] for each in classes], np.int64)
        self._gap: float | None = None
        if options.gap_s is not None:
            clocks = {name: clock_of(next(table.rows())) for name, table in tables.items()}
            between = 1 / options.rate if options.rate else None
            tick, _ = tick_seconds(clocks, str(self.time), self.ticks, options, between)
            self._gap = options.gap_s / tick
        self._dropped = Dropped(options=options)
        report = JoinReport(list(tables), self.recordings)
        for _ in self._joined(report):
            pass
        self.notes += [*report.notes(), *self._dropped.sentences()]

    def close(self) -> None:
        """Remove the databases of all sensors."""
        for table in self._tables.values():
            table.close()

    def rows(self) -> Iterator[Rows]:
        """Yield each person's rows, in the order of recordings."""
        self._dropped = Dropped(options=self._options)
        return self._joined(JoinReport(list(self._tables), self.recordings))

    def place(self, file: int, row: int, column: str | None) -> str:
        """Return the place of a value in words: sensors that are joined have no lines."""
        where = f"{self.recordings[file]}, row {row + 1}"
        return where if column is None else f"{where}, column {column!r}"

    def lost(self) -> dict[Why, int]:
        """Return the counts of lines that could not be read, of all sensors."""
        bad = sum(table.lost()[Why.BAD_LINES] for table in self._tables.values())
        return {Why.BAD_LINES: bad}

    def _check(self) -> None:
        """Refuse sensors that count time differently, or that have a column of one name."""
        if self.time is None:
            raise DataError(
                f"sensors {', '.join(self._tables)}: got rows without times, expected times, by "
                f"which sensors are joined. Leave out {spelt('time', 'none')}"
            )
        if len({table.ticks for table in self._tables.values()}) > 1:
            raise DataError(
                f"sensors {', '.join(self._tables)}: got times as numbers and as dates, "
                f"expected one of both. Leave one out with {spelt('sensors')}"
            )
        if twice := [name for name, n in Counter(self._features).items() if n > 1]:
            raise DataError(
                f"sensors {', '.join(self._tables)}: got column {twice[0]!r} of two of them, "
                f"expected names that differ. Leave one out with {spelt('sensors')}"
            )

    def _chosen(self) -> list[int]:
        """Return the columns that are features, by their place: all, or those that are named."""
        named = self._options.named_features
        if lacking := [name for name in named if name not in self._features]:
            raise DataError(
                f"features: got {lacking[0]!r}, expected columns of the joined sensors: "
                f"{', '.join(self._features)}"
            )
        return [self._features.index(name) for name in named] or list(range(len(self._features)))

    def _joined(self, report: JoinReport) -> Iterator[Rows]:
        """Yield each person's rows; `report` gains what was joined."""
        streams = [table.rows() for table in self._tables.values()]
        own: list[Rows] = []
        for number, owner in enumerate(self._owners):
            if own and own[0].person != owner:
                yield _together(own)
                own = []
            sensors = [
                self._checked(table, next(stream, None), number)
                for table, stream in zip(self._tables.values(), streams, strict=True)
            ]
            own.append(self._recording(sensors, number, owner, report))
        yield _together(own)

    def _checked(self, table: LayoutTable, rows: Rows | None, number: int) -> Rows:
        """Return the rows of one sensor of a recording that can be used, in order of time."""
        if rows is None or not len(rows) or int(rows.file[0]) != number:
            file = table.place(number, 0, None) if rows is None else self.recordings[number]
            raise DataError(f"{file}: got no rows of a sensor, expected some")
        options = replace(
            self._options,
            unlabelled="drop",
            missing="stop" if self._options.missing == "stop" else "drop",
        )
        rows = cleaned(replace(rows, person=self._owners[number]), table, options, self._dropped)
        parts = in_time(rows, table, options)
        if len(parts) != 1:
            what = "no row with a time and numbers" if not parts else "time that runs backwards"
            raise DataError(
                f"{table.place(number, 0, None)}: got {what}, expected rows in order of time, as "
                f"sensors are joined by it. {spelt('backwards', 'sort')} orders them"
            )
        return repeated(parts[0], table, options, self._dropped)

    def _recording(
        self, sensors: Sequence[Rows], number: int, owner: str, report: JoinReport
    ) -> Rows:
        """Return the rows of one recording, at the times of its fastest sensor."""
        steps = [_step(rows) for rows in sensors]
        base = 0
        for i, step in enumerate(steps):
            base = i if step * _FASTER < steps[base] else base
        t = sensors[base].times
        kept = np.ones(len(t), np.bool_)
        columns, y = list[NDArray[np.float32]](), np.full(len(t), self._class[number])
        for i, (name, rows) in enumerate(zip(self._tables, sensors, strict=True)):
            if i == base:
                columns.append(rows.x)
            else:
                gap = self._gap if self._gap is not None else GAP_STEPS * steps[i]
                x, there = _at(t, rows, gap)
                columns.append(x)
                report.add(number, base, i, steps, int((kept & ~there).sum()))
                kept &= there
            if name == self._labelled:
                y = rows.y[np.clip(np.searchsorted(rows.times, t), 0, len(rows) - 1)]
        if not kept.any():
            raise self._apart(sensors, number)
        x = np.concatenate(columns, axis=1)[kept][:, self._kept]
        file = np.full(int(kept.sum()), number, np.int64)
        return Rows(owner, file, np.arange(len(file)), y[kept], t[kept], x)

    def _apart(self, sensors: Sequence[Rows], number: int) -> DataError:
        """Return the error for sensors of one recording that share no time."""
        spans = [
            f"{name} from {rows.times[0]:.15g} to {rows.times[-1]:.15g}"
            for name, rows in zip(self._tables, sensors, strict=True)
        ]
        files = [table.place(number, 0, None) for table in self._tables.values()]
        return DataError(
            f"{self.recordings[number]}: got sensors that share no time: {', '.join(spans)} "
            f"({', '.join(files)}); expected one recording. Leave a sensor out with "
            f"{spelt('sensors')}"
        )


def _step(rows: Rows) -> float:
    """Return the median step of a sensor's times; infinite for a single row."""
    return float(np.median(np.diff(rows.times))) if len(rows) > 1 else np.inf


def _at(
    t: NDArray[np.float64], rows: Rows, gap: float
) -> tuple[NDArray[np.float32], NDArray[np.bool_]]:
    """Return a sensor's values at other times, and whether there are rows around, no gap apart."""
    own = rows.times
    after = np.clip(np.searchsorted(own, t), 0, len(own) - 1)
    before = np.maximum(after - 1, 0)
    exact = own[after] == t
    inside = (t >= own[0]) & (t <= own[-1])
    there = exact | (inside & (own[after] - own[before] <= gap))
    x = np.empty((len(t), rows.x.shape[1]), np.float32)
    for i, column in enumerate(rows.x.T):
        x[:, i] = np.interp(t, own, column)
    return x, there


def _together(own: Sequence[Rows]) -> Rows:
    """Return the recordings of one person as one block of rows."""
    if len(own) == 1:
        return own[0]
    keys = ("file", "row", "y", "t", "x")
    return Rows(own[0].person, *(np.concatenate([getattr(r, k) for r in own]) for k in keys))
