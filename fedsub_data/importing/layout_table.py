"""Tables whose columns a layout names, with times by their head where no column has them."""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from fedsub_core.errors import DataError, cut, listed
from fedsub_core.spelling import spelt
from fedsub_data.importing.dates import date
from fedsub_data.importing.encodings import begin, first_lines
from fedsub_data.importing.layout import Head, SensorLayout
from fedsub_data.importing.local_times import local_seconds
from fedsub_data.importing.names import Names
from fedsub_data.importing.options import NONE, ImportOptions
from fedsub_data.importing.roles import LABELS, TIMES, Roles, by_name, is_number, mostly_numbers
from fedsub_data.importing.source import Rows
from fedsub_data.importing.tables import TableSource

#: The column of times that are counted.
_COUNTED = "seconds"


class LayoutTable(TableSource):
    """Rows of one sensor's files; a :class:`fedsub_data.importing.source.Source`.

    Parameters
    ----------
    owners : whose each file is, where the table is one sensor of recordings that are joined.
    labelled : whether a column of classes is looked for.
    folder : of unpacked files, to be removed at the end.

    Raises DataError as a :class:`TableSource`, and where a head does not say the rate.
    """

    def __init__(
        self,
        files: Sequence[Path],
        options: ImportOptions,
        layout: SensorLayout,
        owners: Sequence[str] | None = None,
        labelled: bool = True,
        folder: Path | None = None,
    ) -> None:
        self._sensor, self._owners, self._labelled = layout, owners, labelled
        own, timed = written_options(files[0], layout, options)
        self._heads = None
        if layout.head and not timed:
            self._heads = np.array([_start_and_rate(path, layout.head, options) for path in files])
            own = replace(own, time=NONE)
        super().__init__(files, own, folder, layout)
        columns, used = self._tables.form(0).columns, self._tables.types(0)
        if hidden := [repr(name) for name in columns if name not in used]:
            self.notes.append(f"Left out, as the layout does not use them: {listed(hidden, 8)}.")
        if layout.units:
            self.units = {**dict.fromkeys(self.features, layout.units), **self.units}
        if self._heads is not None:
            self.time, self.ticks = _COUNTED, True
        if owners is not None:
            self.people = tuple(owners)

    def rows(self) -> Iterator[Rows]:
        """Yield each person's rows."""
        for rows in super().rows():
            if self._sensor.scale != 1:
                rows = replace(rows, x=rows.x * np.float32(self._sensor.scale))
            if self._heads is not None:
                start, rate = self._heads[rows.file // self._recordings].T
                rows = rows.at(start + rows.row / rate)
            yield rows

    def place(self, file: int, row: int, column: str | None) -> str:
        """Return the place of a value, and the value, in words."""
        counted = self._heads is not None and column == _COUNTED
        return super().place(file, row, None if counted else column)

    def _roles_of(self, sample: Mapping[str, Sequence[str | None]], named: Names) -> Roles:
        options, names = self.options, list(sample)
        ordered = [*self._sensor.columns, *self._sensor.names]
        if self._owners is None:
            known = [name for name in dict.fromkeys(ordered) if name in names]
            if known and not options.features:
                self.options = replace(options, features=",".join(known))
                self.notes.append(f"Features by the layout: {', '.join(known)}.")
            return super()._roles_of(sample, named)
        time = None
        if options.time != NONE:
            time = options.time if options.time in names else by_name(names, TIMES)
            if time is None:
                raise DataError(
                    f"{self._files[0]}: got columns {', '.join(names)}, expected one of time, by "
                    f"which sensors are joined. Name it with {spelt('time', 'COLUMN')}"
                )
        words = [word for word in LABELS if word != "y"]
        label = options.label if options.label in names else by_name(names, words)
        if options.intervals or not self._labelled or label == time:
            label = None
        features = tuple(
            name
            for name, values in sample.items()
            if name not in (time, label) and mostly_numbers(values)
            and by_name([name], TIMES) is None
            and (self._sensor.columns or self._sensor.names or by_name([name], words) is None)
        )  # fmt: skip
        features = tuple(sorted(features, key=lambda each: [*ordered, each].index(each)))
        if not features:
            raise DataError(
                f"{self._files[0]}: got columns {', '.join(names)}, expected numbers of a sensor. "
                f"Leave the sensor out with {spelt('sensors')}"
            )
        return Roles(None, label, time, features, ())

    def _by_name(
        self, named: Names, types: Collection[str]
    ) -> tuple[Sequence[str | None], Sequence[str | None]]:
        if self._owners is None:
            return super()._by_name(named, types)
        # Each file is a recording: people are known by the recordings' names.
        return [f"r{i}" for i, _ in enumerate(self._files)], [None] * len(self._files)


def written_options(
    path: Path, layout: SensorLayout, options: ImportOptions
) -> tuple[ImportOptions, bool]:
    """Return the options with which a layout's file is read, and whether it has times."""
    if layout.head is None:
        return options, True
    lines = first_lines(path, begin(path, options)[2])[layout.head.lines :]
    cells = [cell.strip(' "') for cell in re.split("[,;\t]", lines[0] if lines else "")]
    bare = all(map(is_number, cells))
    names = layout.names if bare else layout.renamed(cells)
    own = replace(options, skip_lines=layout.head.lines)
    if bare:
        own = replace(own, column_names=",".join(names))
    if len(names) == 1:
        own = replace(own, delimiter=",")
    return own, not bare and bool(layout.time) and by_name(names, TIMES) is not None


def _start_and_rate(path: Path, head: Head, options: ImportOptions) -> tuple[float, float]:
    """Return when a file's first row was measured, s, and its samples a second, by its head."""
    text = "\n".join(first_lines(path, begin(path, options)[2])[: head.lines])
    rate = _number(re.search(head.rate, text))
    if rate is None or not rate > 0:
        raise DataError(
            f"{path}: got a head {cut(text)!r}, expected {head.lines} lines with samples a second. "
            f"Check {spelt('layout')}"
        )
    if head.start_date:
        day, hour = (re.search(p, text) for p in (head.start_date, head.start_time))
        first = "day-first" if re.search(head.day_first, text) else "month-first"
        start = date(f"{day[1]} {hour[1]}", first) if day and hour else None
        if start is not None:
            of_head = np.array([start]), np.zeros(1, np.bool_)
            start = float(local_seconds(*of_head, options, lambda _: str(path))[0])
    else:
        start = _number(re.search(head.start, text)) if head.start else 0.0
    if start is None:
        raise DataError(
            f"{path}: got a head {cut(text)!r}, expected the time of the first row. Check "
            f"{spelt('layout')}"
        )
    return start, rate


def _number(match: re.Match[str] | None) -> float | None:
    return float(match[1]) if match and is_number(match[1]) else None
