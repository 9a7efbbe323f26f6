"""Devices and sensors of one person, as names of files and columns show them: no people."""

import itertools
import re
from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from itertools import pairwise

import numpy as np

from fedsub_core.errors import DataError, listed
from fedsub_core.spelling import spelt
from fedsub_data.importing.options import AUTO, ImportOptions
from fedsub_data.importing.source import Rows

#: Devices, and places on the body.
DEVICES = frozenset({
    "left", "right", "wrist", "watch", "smartwatch", "phone", "smartphone", "chest", "hip", "waist",
    "pocket", "thigh", "ankle", "shin", "foot", "arm", "forearm", "hand", "head", "ear", "back",
    "belt", "glasses", "band", "ring", "shoe",
})  # fmt: skip
#: What a sensor measures.
SENSORS = frozenset({
    "accelerometer", "acceleration", "accel", "acc", "gyroscope", "gyro", "gyr", "magnetometer",
    "magnet", "mag", "gravity", "linear", "total", "uncalibrated", "raw", "orientation", "rotation",
    "attitude", "barometer", "pressure", "light", "proximity", "location", "gps", "pedometer",
    "heart", "rate", "heartrate", "hr", "bpm", "ecg", "eeg", "emg", "ppg", "bvp", "eda", "gsr",
    "ibi", "temp", "temperature", "respiration", "resp",
})  # fmt: skip
#: Parts of a data set.
PARTS = frozenset({
    "train", "training", "trn", "test", "testing", "tst", "val", "valid", "validation", "eval",
})  # fmt: skip


def words(name: str) -> tuple[str, ...]:
    """Return the words and numbers of a file's name, in small letters."""
    spaced = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name)
    return tuple(re.findall(r"[^\W\d_]+|\d+", spaced.lower()))


def parted(name: str, known: Collection[str]) -> tuple[frozenset[str], tuple[str, ...]]:
    """Return the `known` words of a file's name, and the rest of its words in their order."""
    spoken = words(name)
    return frozenset(spoken) & frozenset(known), tuple(w for w in spoken if w not in known)


#: Seconds beyond which a time is a date since 1970, and none since something began.
A_DATE = 1e8
#: How far first and last times of one recording's sensors lie apart, s.
_APART = 2.0
#: So many moments of a recording are looked at, and so many of them may differ in class.
_MOMENTS, _DIFFER = 64, 4
#: So many names are shown.
_SHOWN = 4


def check_names(people: Sequence[str], options: ImportOptions) -> None:
    """Refuse people whose names differ in a sensor, a device or a part of a data set alone.

    `people`: names, as files or a column have them; what an option says of them is taken.

    Raises DataError; it names them, and what to do.
    """
    if options.subject or "subject" in options.named_groups:
        return
    for known in (PARTS, SENSORS | DEVICES):
        alike = defaultdict[tuple[str, ...], list[str]](list)
        for person in people:
            differing, rest = parted(person, known)
            if differing:
                alike[rest].append(person)
        for group in alike.values():
            if len(group) > 1:
                sensors = {parted(person, known)[0] & SENSORS for person in group}
                what = "part" if known is PARTS else "sensor" if len(sensors) > 1 else "device"
                names = listed(map(repr, group), _SHOWN)
                raise DataError(
                    f"people {names}: got names that differ in the {what} alone, expected names of "
                    f"people. {_way_out(what)}. If they are people, say so: "
                    f"{spelt('from-name')} '([^.]+)', or {spelt('subject', 'COLUMN')} "
                    "where a column names them"
                )


def check_sensors(person: str, files: Sequence[str], options: ImportOptions) -> None:
    """Refuse one person's files whose names differ in a sensor alone.

    Raises DataError; it names person and files, and what to do.
    """
    seen: dict[tuple[str, ...], tuple[frozenset[str], str]] = {}
    for file in files if options.overlapping == AUTO else ():
        differing, rest = parted(file, SENSORS)
        other = seen.setdefault(rest, (differing, file)) if differing else (differing, file)
        if differing != other[0]:
            raise DataError(
                f"person {person!r}: got files {other[1]} and {file}, whose names differ in the "
                "sensor alone; expected all sensors in one table. Join them by time, with a column "
                "for each axis (pandas.merge_asof). If they are recordings of one sensor, give "
                f"{spelt('overlapping', 'behind')} or together"
            )


class SameTimes:
    """Finder of people, each of one file, who were recorded at the same times in the same classes.

    `options`: whoever says who the people are is not asked.
    """

    def __init__(self, options: ImportOptions) -> None:
        self._asked = not (options.subject or "subject" in options.named_groups)
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
        dated = (begun for begun in self._seen if begun[1] * tick > A_DATE)
        seen = sorted(dated, key=lambda begun: begun[1])
        people: dict[str, None] = {}
        for (a, begins, ends, y), (b, first, last, other) in itertools.pairwise(seen):
            near = max(first - begins, abs(last - ends)) * tick < _APART
            if near and np.count_nonzero(y != other) <= _DIFFER:
                people |= {a: None, b: None}
        if not people:
            return []
        names = listed(map(repr, people), _SHOWN)
        return [
            f"Recorded at the same times, in the same classes: {names}. If these "
            "files are sensors or devices of one person, join them by time, or name the person "
            f"with {spelt('from-name')}."
        ]


def _way_out(what: str) -> str:
    """Return the advice on files of one person: by sensors, devices or parts of a set."""
    name = spelt("from-name")
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


#: Words of a column's name that says which device a row is of, and words that may stand beside
#: them. With others, as in ``sensor_kitchen`` or ``sensor1``, it is one sensor's own column.
_NAMED = frozenset({"device", "sensor", "position", "placement", "bodypart", "limb", "side"})
_BESIDE = DEVICES | {
    "id", "name", "type", "model", "address", "mac", "serial", "number", "no", "nr", "code",
    "label", "location", "of", "on", "body", "part",
}  # fmt: skip
#: Shares of the first rows: so many follow one of another device, so many are of a second one.
_TURNS, _SECOND = 0.1, 0.1
#: So many devices at most.
_MOST_DEVICES = 20


def check_turns(
    columns: Mapping[str, Sequence[str | None]], people: Sequence[str | None], where: str
) -> None:
    """Refuse a signal's table in which devices take turns: a window would hold rows of several.

    Parameters
    ----------
    columns : the first rows' texts by column, of columns that nobody named.
    people : whose each row is.

    Raises DataError; it names the column and two devices, and what to do.
    """
    for name, values in columns.items():
        spoken = set(words(name))
        if not spoken & (_NAMED | {"wrist"}) or spoken - _NAMED - _BESIDE:
            continue
        rows: dict[str | None, list[str | None]] = {}
        for person, value in zip(people, values, strict=True):
            rows.setdefault(person, []).append(value)
        turns = sum(a != b for own in rows.values() for a, b in pairwise(own))
        devices = Counter(value for value in values if value is not None).most_common()
        if not 2 <= len(devices) <= _MOST_DEVICES or turns < _TURNS * len(values):
            continue
        if devices[1][1] >= _SECOND * len(values):
            raise DataError(
                f"{where}: column {name!r}: got rows of {devices[0][0]!r} and {devices[1][0]!r} in "
                "turns, expected a recording of one device at a time. Write a file for each "
                "device, with the person in its name or in a column: recordings of one time stay "
                "together. If these are no devices, name the features: "
                f"{spelt('features', 'A,B,C')}"
            )
