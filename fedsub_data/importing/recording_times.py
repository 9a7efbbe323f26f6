"""First and last time of each recording, and the unit of times, by one pass over the rows."""

from pathlib import Path

import numpy as np

from fedsub_core.errors import DataError
from fedsub_core.spelling import spelt
from fedsub_data.importing.clocks import Clock, clock_of
from fedsub_data.importing.dates import UnreadTimes
from fedsub_data.importing.interval_owners import Recording
from fedsub_data.importing.options import ImportOptions
from fedsub_data.importing.source import Source, file_of
from fedsub_data.importing.time_unit import tick_seconds


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
