"""Recordings in a person's rows: begun, put in order of time, and without repeated rows."""

import itertools

import numpy as np
from numpy.typing import NDArray

from fedsub_core.errors import DataError
from fedsub_core.spelling import spelt
from fedsub_data.importing.cleaning import Mask, first_place
from fedsub_data.importing.dropped import Dropped, Why, stopped
from fedsub_data.importing.options import ImportOptions
from fedsub_data.importing.source import Rows, Source

#: Beyond this share of a recording, rows of one time are no accident.
_MOST_REPEATED = 0.25
#: A step is short below this share of the usual one; of one recording's steps few more become so.
_SHORT, _MORE = 0.7, 0.05
#: Where so many steps run backwards, but not nearly all, rows stand in no order of time at all.
_SHUFFLED = (0.25, 0.75)
#: In such a file, that share of the steps in time at least runs backwards.
_MOST_FALLS = 0.9
#: Fewer steps show nothing.
_FEWEST = 2


def in_time(rows: Rows, source: Source, options: ImportOptions) -> list[Rows]:
    """Return the recordings of a person's rows, each of one file, in the order of their time.

    A recording begins with each file, and with ``backwards = split`` where time runs backwards.

    Raises DataError where time runs backwards in a file and nothing says what that means.
    """
    parts = []
    for file in dict.fromkeys(rows.file.tolist()):
        recording = rows.part(rows.file == file)
        back = np.flatnonzero(np.diff(recording.times) < 0)
        if options.backwards == "split":
            ends = [0, *(back + 1).tolist(), len(recording)]
            parts += [recording.part(slice(a, b)) for a, b in itertools.pairwise(ends)]
            continue
        if not len(back):
            parts.append(recording)
            continue
        order = np.argsort(recording.times, kind="stable")
        why_not = interleaved(recording, order)
        if options.backwards == "stop" or why_not:
            at = int(back[0]) + 1
            place = source.place(int(file), int(recording.row[at]), source.time)
            way = spelt("backwards", "split" if why_not else "sort")
            way += "" if why_not else " puts rows in order of time, split"
            before = float(recording.times[at - 1])
            raise stopped(
                f"person {recording.person!r}: time runs backwards, {before:.15g} stands before "
                f"it{'; ' if why_not else ''}{why_not}",
                len(back),
                place,
                f"{way} begins a new recording there",
            )
        parts.append(recording.part(order))
    return sorted((part for part in parts if len(part)), key=lambda part: float(part.times[0]))


def interleaved(rows: Rows, order: NDArray[np.int64]) -> str:
    """Return a clause on rows of one file that sorting would interleave; "" if it would not.

    Rows of two recordings would take turns, so that steps become shorter, and a window would hold
    both. A row that stands there twice makes no recording; rows that are shuffled are not several.

    `order`: the rows in order of time.
    """
    least, most = _SHUFFLED
    if least < float(np.mean(np.diff(rows.times) < 0)) < most:
        return ""
    now, then = np.abs(np.diff(rows.times)), np.diff(rows.times[order])
    usual = float(np.median(now))
    again = (then == 0) & (np.diff(rows.x[order].reshape(len(rows), -1), axis=0) == 0).all(axis=1)
    then = then[~again]
    if usual == 0 or not len(then):
        return ""
    before, after = (float(np.mean(steps < _SHORT * usual)) for steps in (now, then))
    if after <= before + _MORE:
        return ""
    return (
        f"in order of time {after:.0%} of the steps would be shorter than they are ({before:.0%} "
        "now): recordings that follow one another would be sorted into each other"
    )


def repeated(rows: Rows, source: Source, options: ImportOptions, dropped: Dropped) -> Rows:
    """Return rows without those of a time that is there already, or spread evenly in time.

    `rows`: of one recording, in order of time; or without time, then whole rows are compared.
    """
    how = options.duplicates
    if rows.t is None:
        if how in ("auto", "keep"):
            return rows
        keyed = np.column_stack([rows.y.astype(np.float32), _flat(rows.x)])
        _, first = np.unique(keyed, axis=0, return_index=True)
        again: Mask = np.ones(len(rows), np.bool_)
        again[first] = False
    else:
        again = np.concatenate(([False], np.diff(rows.t) == 0))
    if not again.any():
        return rows
    if how == "keep":
        return rows.at(_spread(rows.t)) if rows.t is not None else rows
    if how == "auto":
        other = again & (np.diff(_flat(rows.x), axis=0, prepend=np.nan) != 0).any(axis=1)
        if other.sum() > _MOST_REPEATED * len(rows):
            raise stopped(
                "rows of a time that is there already, with other values",
                int(other.sum()),
                first_place(rows, other, source, source.time),
                f"If the clock is coarse, {spelt('duplicates', 'keep')} spreads them evenly. If "
                f"devices recorded at once, write a file for each. {spelt('duplicates', 'drop')} "
                "leaves them out",
            )
    place = "" if Why.REPEATED in dropped.first else first_place(rows, again, source, source.time)
    if how == "stop":
        what = "rows of a time that is there already" if source.time else "rows that are the same"
        way = f"{spelt('duplicates', 'drop')} leaves them out"
        raise stopped(what, int(again.sum()), place, way)
    dropped.add(Why.REPEATED, rows.person, int(again.sum()), place)
    return rows.part(~again)


def _flat(x: NDArray[np.float32]) -> NDArray[np.float32]:
    return x.reshape(len(x), -1)


def _spread(t: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return times in which rows of one time lie evenly up to the next one.

    So does a logger mean it that writes fifty rows with one second. The last ones go on as those
    before them did.
    """
    at, first, count = np.unique(t, return_index=True, return_counts=True)
    if len(at) == 1:
        raise DataError(
            f"got {len(t):,} rows of one time, {at[0]:g}, expected a time that goes on. Name "
            f"another column with {spelt('time')}, or give {spelt('time', 'none')} and "
            f"{spelt('rate')}"
        )
    ends = np.append(at[1:], at[-1] + (at[-1] - at[-2]) * count[-1] / count[-2])
    place = np.arange(len(t)) - np.repeat(first, count)
    spread: NDArray[np.float64] = np.repeat(at, count) + place * np.repeat(
        (ends - at) / count, count
    )
    return spread


class NewestFirst:
    """Finder of files that are written from the newest row to the oldest.

    Parameters
    ----------
    source : its time is looked at.
    options : with ``backwards = sort`` the order of rows is no matter.
    """

    def __init__(self, source: Source, options: ImportOptions) -> None:
        self._source, self._sorted = source, options.backwards == "sort"
        self._first, self._recordings = "", 0

    def add(self, rows: Rows) -> None:
        """Look at one person's rows, file by file."""
        if rows.t is None or self._sorted:
            return
        fall = (rows.t[1:] < rows.t[:-1]) & (rows.file[1:] == rows.file[:-1])
        if np.count_nonzero(fall) < _FEWEST:
            return
        for file in np.unique(rows.file).tolist():
            own = rows.file == file
            t = rows.t[own]
            falls, rises = np.count_nonzero(t[1:] < t[:-1]), np.count_nonzero(t[1:] > t[:-1])
            if falls >= max(_FEWEST, _MOST_FALLS * (falls + rises)):
                self._recordings += 1
                self._first = self._first or (
                    f"{self._source.place(file, int(rows.row[own][0]), self._source.time)}, person "
                    f"{rows.person!r}: got time that runs backwards in {falls:,} of "
                    f"{falls + rises:,} steps: the newest row is the first"
                )

    def check(self) -> None:
        """Refuse files whose newest row stands first.

        Raises DataError; it names the first, and the option.
        """
        if self._first:
            more = f" (so in {self._recordings} recordings)" if self._recordings > 1 else ""
            raise DataError(
                f"{self._first}{more}; expected the oldest first. {spelt('backwards', 'sort')} "
                "puts rows in order of time"
            )
