"""Files that look like people, but are one person's sensors or devices, or parts of a set."""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Sequence

import numpy as np

from fedsub_core.errors import DataError, listed
from fedsub_core.spelling import spelt
from fedsub_data.importing.file_words import DEVICES, PARTS, SENSORS, parted
from fedsub_data.importing.options import AUTO, ImportOptions
from fedsub_data.importing.source import Rows

#: Seconds beyond which a time is a date since 1970.
_A_DATE = 1e8
#: How far first and last times of one recording's sensors lie apart, s.
_APART = 2.0
#: So many moments of a recording are looked at, and so many of them may differ in class.
_MOMENTS, _DIFFER = 64, 4
#: So many names are shown.
_SHOWN = 4


def check_names(people: Sequence[str], options: ImportOptions) -> None:
    """Refuse people whose names differ in a sensor, a device or a part of a data set alone.

    Parameters
    ----------
    people : names, as files or a column have them; what an option says of them is taken.

    Raises
    ------
    DataError
        It names them, and what to do.
    """
    if options.subject or options.subject_from_name:
        return
    for known in (PARTS, SENSORS | DEVICES):
        alike = defaultdict[tuple[str, ...], list[str]](list)
        for person in people:
            found, rest = parted(person, known)
            if found:
                alike[rest].append(person)
        for group in alike.values():
            if len(group) > 1:
                sensors = {parted(person, known)[0] & SENSORS for person in group}
                what = "part" if known is PARTS else "sensor" if len(sensors) > 1 else "device"
                names = listed(map(repr, group), _SHOWN)
                raise DataError(
                    f"people {names}: got names that differ in the {what} alone, expected names of "
                    f"people. {_way_out(what)}. If they are people, say so: "
                    f"{spelt('subject-from-name')} '([^.]+)', or {spelt('subject', 'COLUMN')} "
                    "where a column names them"
                )


def check_sensors(person: str, files: Sequence[str], options: ImportOptions) -> None:
    """Refuse one person's files whose names differ in a sensor alone.

    Raises
    ------
    DataError
        It names person and files, and what to do.
    """
    seen: dict[tuple[str, ...], tuple[frozenset[str], str]] = {}
    for file in files if options.overlapping == AUTO else ():
        found, rest = parted(file, SENSORS)
        other = seen.setdefault(rest, (found, file)) if found else (found, file)
        if found != other[0]:
            raise DataError(
                f"person {person!r}: got files {other[1]} and {file}, whose names differ in the "
                "sensor alone; expected all sensors in one table. Join them by time, with a column "
                "for each axis (pandas.merge_asof). If they are recordings of one sensor, give "
                f"{spelt('overlapping', 'behind')} or together"
            )


class SameTimes:
    """Finder of people, each of one file, who were recorded at the same times in the same classes.

    Parameters
    ----------
    options : whoever says who the people are is not asked.
    """

    def __init__(self, options: ImportOptions) -> None:
        self._asked = not (options.subject or options.subject_from_name)
        self._files: dict[int, str] = {}
        self._seen: list[tuple[str, float, float, np.ndarray]] = []

    def add(self, rows: Rows) -> None:
        """Look at one person's rows."""
        if not self._asked or rows.t is None or not len(rows):
            return
        file = int(rows.file[0])
        if rows.file[-1] != file or file in self._files:
            self._asked = False  # people are no files
            return
        self._files[file] = rows.person
        t = rows.t[np.isfinite(rows.t)]
        if len(t):
            at = np.linspace(0, len(rows) - 1, _MOMENTS).astype(np.int64)
            self._seen.append((rows.person, float(t.min()), float(t.max()), rows.y[at]))

    def notes(self, tick: float) -> list[str]:
        """Return a sentence on people who may be one; `tick` is the unit of times, s."""
        if not self._asked:
            return []
        seen = sorted(
            (one for one in self._seen if one[1] * tick > _A_DATE), key=lambda one: one[1]
        )
        found: dict[str, None] = {}
        for (a, begins, ends, y), (b, first, last, other) in itertools.pairwise(seen):
            near = max(first - begins, abs(last - ends)) * tick < _APART
            if near and np.count_nonzero(y != other) <= _DIFFER:
                found |= {a: None, b: None}
        if not found:
            return []
        names = listed(map(repr, found), _SHOWN)
        return [
            f"Recorded at the same times, in the same classes: {names}. If these "
            "files are sensors or devices of one person, join them by time, or name the person "
            f"with {spelt('subject-from-name')}."
        ]


def _way_out(what: str) -> str:
    """Return what to do with files of one person, by what they are."""
    name = spelt("subject-from-name")
    return {
        "part": "If they are parts of a data set, name the column of people with "
        f"{spelt('subject')}, or the person in a file's name with {name}: each person is tested on "
        "a part of its own samples. Where nobody knows whose a sample is, join the files, with a "
        "column that is one name in all rows: `fedsub data partition` deals their samples to "
        "clients",
        "sensor": "If they are sensors of one recording, join them by time into one table with a "
        "column for each axis (pandas.merge_asof)",
        "device": "If they are devices of one person, name the person in a file's name, such as "
        f"{name} '(.+)_': recordings of one time stay together",
    }[what]
