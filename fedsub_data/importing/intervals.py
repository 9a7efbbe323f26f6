"""Classes of rows by intervals of time: a source's rows with the class of the interval around."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from fedsub_core.errors import ConfigError, DataError, listed
from fedsub_core.spelling import spelt
from fedsub_data.importing.clocks import Clock, clock_of
from fedsub_data.importing.dates import UnreadTimes
from fedsub_data.importing.dropped import Why
from fedsub_data.importing.files import Unchanged
from fedsub_data.importing.interval_files import Interval, IntervalFile, read_intervals
from fedsub_data.importing.interval_owners import Recording, interval_paths, unknown
from fedsub_data.importing.labels import classes_of
from fedsub_data.importing.options import ImportOptions
from fedsub_data.importing.placed_intervals import Placed, placed, without_overlaps
from fedsub_data.importing.source import Rows, Source, file_of
from fedsub_data.importing.time_unit import tick_seconds

_SHOWN = 3


@dataclass(frozen=True, eq=False)
class _Steps:
    """The intervals of one recording, apart and in order: times, and codes of their texts."""

    starts: NDArray[np.float64]
    ends: NDArray[np.float64]
    codes: NDArray[np.int64]

    def of(self, t: NDArray[np.float64]) -> NDArray[np.int64]:
        """Return the code at each time, -1 outside."""
        if not len(self.starts):
            return np.full(len(t), -1, np.int64)
        at = np.searchsorted(self.starts, t, side="right") - 1
        inside = (at >= 0) & (t < self.ends[at])
        return np.where(inside, self.codes[at], -1)


class IntervalSource:
    """Rows with classes by intervals; a :class:`fedsub_data.importing.source.Source`.

    Parameters
    ----------
    source : where the rows come from; stays open.
    steps : by person and file, in the source's unit of time; `texts` are their classes.
    """

    def __init__(
        self,
        source: Source,
        steps: Mapping[tuple[str, int], _Steps],
        texts: Sequence[str],
        options: ImportOptions,
    ) -> None:
        self._source, self._steps = source, steps
        self.features, self.rising = source.features, source.rising
        self.people, self.time, self.ticks = source.people, source.time, source.ticks
        self.units = source.units
        counts = Counter[int]()
        for rows in source.rows():
            counts.update(dict(zip(*np.unique(self._codes(rows), return_counts=True), strict=True)))
        by_text = {text: int(counts[code]) for code, text in enumerate(texts) if counts[code]}
        names, self.labels, notes = classes_of(by_text, options, options.intervals)
        known = [-1 if (n := names.get(text)) is None else self.labels.index(n) for text in texts]
        self._of_code = np.array([*known, -1], np.int64)
        self.outside, self.count = int(counts[-1]), sum(counts.values())
        self.notes = [*source.notes, *notes]

    def _codes(self, rows: Rows) -> NDArray[np.int64]:
        codes = np.full(len(rows), -1, np.int64)
        starts = np.flatnonzero(np.diff(rows.file, prepend=-1))
        for begin, end in zip(starts, [*starts[1:], len(rows)], strict=True):
            steps = self._steps.get((rows.person, int(rows.file[begin])))
            if steps is not None:
                codes[begin:end] = steps.of(rows.times[begin:end])
        return codes

    def rows(self) -> Iterator[Rows]:
        """Yield each person's rows."""
        for rows in self._source.rows():
            yield replace(rows, y=self._of_code[self._codes(rows)])

    def place(self, file: int, row: int, column: str | None) -> str:
        """Return a value's place and the value, in words."""
        return self._source.place(file, row, column)

    def lost(self) -> dict[Why, int]:
        """Return the counts of rows that belong to nobody, by reason."""
        return self._source.lost()


def with_intervals(source: Source, options: ImportOptions) -> Source:
    """Return the source with classes by ``intervals``, or as it is where none are given.

    Raises DataError where intervals disagree, or none shares a time with a recording; it names file
    and line. Raises ConfigError where rows have no time.
    """
    if not options.intervals:
        return source
    if source.time is None:
        raise ConfigError(
            "intervals: got rows without a time, expected a column of time. Name it with "
            f"{spelt('time', 'COLUMN')}"
        )
    tick, recordings = recording_times(source, options)
    paths = interval_paths(options.intervals, recordings)
    with Unchanged(list(paths)):
        files = {path: read_intervals(path, options) for path in paths}
    pooled: dict[tuple[str, int], list[Placed]] = {}
    notes, lacking = list[str](), list[Interval]()
    for path, file in files.items():
        made, more, nobody = placed(file, paths[path], options, tick)
        notes += [note for note in more if note not in notes]
        lacking += nobody
        for key, own in made.items():
            pooled.setdefault(key, []).extend(own)
    notes += unknown(lacking, source.people)
    _check_shared(pooled, recordings, options, list(files.values()), notes)
    texts = list(dict.fromkeys(each.label for own in pooled.values() for each in own))
    steps = {}
    for (person, number), own in pooled.items():
        apart = without_overlaps(own, person)
        columns = np.array([(each.start, each.end) for each in apart]).reshape(-1, 2) / tick
        codes = np.array([texts.index(each.label) for each in apart], np.int64)
        steps[person, number] = _Steps(columns[:, 0], columns[:, 1], codes)
    labelled = IntervalSource(source, steps, texts, options)
    labelled.notes += [*notes, _counted(labelled, pooled, recordings)]
    return labelled


def _check_shared(
    pooled: Mapping[tuple[str, int], Sequence[Placed]],
    recordings: Sequence[Recording],
    options: ImportOptions,
    files: Sequence[IntervalFile],
    notes: Sequence[str],
) -> None:
    """Refuse intervals of which none shares a time with its recording."""
    spans = {(each.person, each.file): each for each in recordings}
    placed_all = [(each, spans[key]) for key, own in pooled.items() for each in own]
    if any(each.start <= r.last and each.end > r.first for each, r in placed_all):
        return
    if not placed_all:
        paths = listed([str(file.path) for file in files], _SHOWN)
        raise DataError(
            f"{paths}: got no interval of anybody who is imported, expected some. {' '.join(notes)}"
        )
    each, recording = placed_all[0]
    raise DataError(
        f"{each.where}: got {each.label!r} from {each.start:.15g} to {each.end:.15g} s, and person "
        f"{recording.person!r} was recorded from {recording.first:.15g} to {recording.last:.15g} s "
        f"in {recording.path}; expected intervals in the time of recordings. Check "
        f"{spelt('intervals-unit')} and {spelt('time-unit')}"
    )


def _counted(
    source: IntervalSource,
    pooled: Mapping[tuple[str, int], Sequence[Placed]],
    recordings: Sequence[Recording],
) -> str:
    """Return the sentence on rows inside and outside of intervals."""
    share = 100 * source.outside / max(source.count, 1)
    without = [r.path.name for r in recordings if not pooled.get((r.person, r.file))]
    none = f" Recordings without an interval: {listed(without, _SHOWN)}." if without else ""
    return (
        f"Classes by intervals: {source.outside:,} of {source.count:,} rows ({share:.0f} %) lie "
        f"outside all intervals and are unlabelled.{none}"
    )


def recording_times(source: Source, options: ImportOptions) -> tuple[float, list[Recording]]:
    """Return the length of one tick of time, s, and the recordings in the source's order.

    Raises DataError where times cannot be read, or rows are windows.
    """
    clocks, unread = dict[str, Clock](), UnreadTimes(source, options)
    spans: dict[tuple[str, int], tuple[float, float]] = {}
    for rows in source.rows():
        if rows.x.ndim != 2:
            raise DataError(
                f"{file_of(source, 0)}: got windows [n, channels, time] and intervals, expected "
                f"rows of a signal, or a label for each window: {spelt('label')}"
            )
        clocks[rows.person] = clock_of(rows, options.backwards == "sort")
        unread.add(rows)
        starts = np.flatnonzero(np.diff(rows.file, prepend=-1))
        for begin, end in zip(starts, [*starts[1:], len(rows)], strict=True):
            t = rows.times[begin:end]
            if np.isfinite(t).any():
                span = float(np.nanmin(t)), float(np.nanmax(t))
                spans[rows.person, int(rows.file[begin])] = span
    unread.check()
    between = 1 / options.rate if options.rate else None
    timed = f"{source.time} {source.units.get(str(source.time), '')}".strip()
    tick, _ = tick_seconds(clocks, timed, source.ticks, options, between)
    paths = {file: Path(file_of(source, file)) for _, file in spans}
    return tick, [
        Recording(person, file, paths[file], first * tick, last * tick)
        for (person, file), (first, last) in spans.items()
    ]
