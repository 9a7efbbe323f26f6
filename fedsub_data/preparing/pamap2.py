"""PAMAP2: twelve activities of nine people with three inertial units and a heart rate monitor.

Source: A. Reiss and D. Stricker, *Introducing a New Benchmarked Dataset for Activity Monitoring*,
ISWC 2012; https://archive.ics.uci.edu/dataset/231. Read is ``Protocol``, 100 rows a second. Of each
unit (hand, chest, ankle) the acceleration of the 16 g scale, the gyroscope and the magnetometer are
used: the 6 g scale saturates and the orientation is invalid, as the data set's readme says.
"""

from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from fedsub_core.data.federation import Card, ClientData, Federation
from fedsub_data.importing.sensors import axes
from fedsub_data.preparing.members import Member, find_members
from fedsub_data.preparing.options import PAMAP2Options
from fedsub_data.preparing.preparation import Counts, Prepared, Progress, each_person, refused
from fedsub_data.preparing.tables import Rows, Table, read_table
from fedsub_data.preparing.windows import Clock, stretches, window_starts

RATE_HZ = 100
ACTIVITIES = {
    **{"1": "lying", "2": "sitting", "3": "standing", "4": "walking", "5": "running"},
    **{"6": "cycling", "7": "Nordic walking", "12": "ascending stairs"},
    **{"13": "descending stairs", "16": "vacuum cleaning", "17": "ironing", "24": "rope jumping"},
}
PLACES = ("hand", "chest", "ankle")
_AXES = tuple(f"{sensor} {axis}" for sensor in ("acc", "gyro", "mag") for axis in "xyz")
_UNIT = (
    *("temperature", *_AXES[:3], "acc6 x", "acc6 y", "acc6 z", *_AXES[3:]),
    *(f"orientation {i}" for i in range(1, 5)),
)
CHANNELS = tuple(f"{place} {axis}" for place in PLACES for axis in _AXES)
STATISTICS = ("mean", "std", "min", "max")
TABLE = Table(
    columns=(
        *("timestamp", "activityID", "heart rate"),
        *(f"{place} {column}" for place in PLACES for column in _UNIT),
    ),
    numbers=("timestamp", "heart rate", *CHANNELS),
    words={"activityID": ("0", *ACTIVITIES)},
    blank="NaN",
    may_be_blank=("heart rate", *CHANNELS),
    separator=" ",
    header=False,
)
#: The monitor sends about 9 values a second; a heart keeps its pace for longer than this.
HEART_RATE_HELD_S = 2.0

_FILES = r"(?:.*/)?Protocol/subject1\d\d\.dat"
_EXPECTED = "PAMAP2_Dataset.zip, or a folder with Protocol/subject101.dat and so on"


def prepare(source: Path, options: PAMAP2Options, workers: int, progress: Progress) -> Prepared:
    """Return PAMAP2 as a federation: x [n, 27, 512] raw, or [n, 108] statistics, m/s^2, rad/s, uT.

    Windows lie inside stretches of one activity; transient rows (activity 0) are dropped. Gaps of
    lost packets of up to ``repair_s`` are interpolated linearly inside a stretch; windows with a
    longer one are dropped. With ``heart_rate`` there is one more channel, in beats per minute,
    each value carried forward for up to 2 s.

    Raises DataError where files are missing or not in the official format, or a person has no
    window left.
    """
    people = find_members(source, _FILES, _EXPECTED)
    counts, clients = Counts(), {}
    for data, counted in each_person(partial(_person, options=options), people, workers, progress):
        clients[data.client] = data
        counts.merge(counted)
    channels = (*CHANNELS, "heart rate") if options.heart_rate else CHANNELS
    raw = options.features == "raw"
    card = Card(
        name="pamap2",
        task="activity recognition",
        classes=tuple(ACTIVITIES.values()),
        features=channels if raw else tuple(f"{c} {s}" for s in STATISTICS for c in channels),
        units="acc m/s^2, gyro rad/s, mag uT" + (", heart rate bpm" if options.heart_rate else ""),
        sampling_rate_hz=float(RATE_HZ) if raw else None,
        window_s=options.window_s,
        overlap=options.overlap,
        time_ordered=True,
        sensors=axes(channels) if raw else None,
    )
    return Prepared(Federation(card, clients), counts)


def _person(recording: Member, options: PAMAP2Options) -> tuple[ClientData, Counts]:
    windows = _Windows(recording, options)
    with recording.open() as file:
        for rows in read_table(file, recording, TABLE):
            windows.add(rows)
    windows.close("the end")
    client = recording.name.removeprefix("subject").removesuffix(".dat")
    if not windows.y:
        got = f"no window for {client} from {windows.counts['rows read']} rows"
        expected = f"{options.window_s:g} s of an activity without longer gaps"
        raise refused(str(recording), got, expected)
    windows.counts.add("people")
    x, t = np.array(windows.x, np.float32), np.array(windows.t, np.float64)
    return ClientData(client, x, np.array(windows.y, np.int64), t), windows.counts


class _Windows:
    """The windows of a recording; keeps the rows of the stretch that is being read."""

    def __init__(self, recording: Member, options: PAMAP2Options) -> None:
        self.options = options
        self.width = round(options.window_s * RATE_HZ)
        self.step = max(1, round(self.width * (1 - options.overlap)))
        self.clock = Clock(recording, RATE_HZ)
        self.heart = Held(HEART_RATE_HELD_S)
        self.x: list[NDArray[np.float32]] = []
        self.y: list[int] = []
        self.t: list[float] = []
        rows = ("rows repaired: lost packets", "rows dropped: transient activity")
        self.counts = Counts.zero("rows read", *rows, "windows kept")
        self._activity = 0
        self._seconds: list[NDArray[np.float64]] = []
        self._signals: list[NDArray[np.float64]] = []

    def add(self, rows: Rows) -> None:
        """Take the next rows; the stretches that they end become windows."""
        activity, seconds = rows.words["activityID"], rows.numbers[:, 0]
        signals = rows.numbers[:, 2:]
        pauses = self.clock.pauses(seconds, rows.line)
        if self.options.heart_rate:
            heart = self.heart.carry(rows.numbers[:, 1], seconds)
            signals = np.column_stack([signals, heart])
        self.counts.add("rows read", len(seconds))
        transient = int(np.count_nonzero(activity == 0))
        self.counts.add("rows dropped: transient activity", transient)
        for start, end in stretches(activity, breaks=pauses):
            if pauses[start]:
                self.close("a pause")
            elif activity[start] != self._activity:
                self.close("another activity")
            self._activity = int(activity[start])
            if self._activity:
                self._seconds.append(seconds[start:end].copy())
                self._signals.append(signals[start:end].copy())

    def close(self, by: str) -> None:
        """End the stretch and make its windows."""
        if not self._seconds:
            return
        seconds, signals = np.concatenate(self._seconds), np.concatenate(self._signals)
        self._seconds, self._signals = [], []
        longest = round(self.options.repair_s * RATE_HZ)
        repaired = interpolate_gaps(signals[:, : len(CHANNELS)], longest)
        self.counts.add("rows repaired: lost packets", int(repaired.sum()))
        starts = window_starts(0, len(seconds), self.width, self.step)
        for start in starts:
            self._window(seconds[start], signals[start : start + self.width])
        if not starts or starts[-1] + self.width < len(seconds):
            self.counts.add(f"windows dropped: cut by {by}")

    def _window(self, second: float, signals: NDArray[np.float64]) -> None:
        if np.isnan(signals).any():
            lost = np.isnan(signals[:, : len(CHANNELS)]).any()
            self.counts.add(f"windows dropped: {'lost packets' if lost else 'no heart rate'}")
            return
        if self.options.features == "stats":
            parts = [signals.mean(0), signals.std(0), signals.min(0), signals.max(0)]
            self.x.append(np.concatenate(parts).astype(np.float32))
        else:
            self.x.append(signals.T.astype(np.float32))
        self.y.append(self._activity - 1)
        self.t.append(float(second))
        self.counts.add("windows kept")


def interpolate_gaps(signals: NDArray[np.float64], longest: int) -> NDArray[np.bool_]:
    """Fill gaps of at most `longest` rows linearly, in place; return bool [n], the rows filled.

    Parameters
    ----------
    signals : float64 [n, channels], rows at a fixed rate; NaN where a value was lost. A gap at
        the start or the end has nothing on one side and stays.
    """
    filled = np.zeros(len(signals), np.bool_)
    for column in signals.T:
        lost = np.isnan(column)
        if not lost.any() or lost.all():
            continue
        edges = np.diff(lost.astype(np.int8), prepend=0, append=0)
        starts, ends = np.flatnonzero(edges == 1), np.flatnonzero(edges == -1)
        short = (ends - starts <= longest) & (starts > 0) & (ends < len(column))
        # +1 where a short gap starts and -1 where it ends: the running sum is 1 inside.
        inside = np.zeros(len(column) + 1, np.int64)
        inside[starts[short]] = 1
        inside[ends[short]] -= 1
        rows = np.flatnonzero(np.cumsum(inside[:-1]))
        column[rows] = np.interp(rows, np.flatnonzero(~lost), column[~lost])
        filled[rows] = True
    return filled


class Held:
    """A slow signal's last value, carried forward over the rows between its own.

    `longest_s`: how long a value is carried, in seconds.
    """

    def __init__(self, longest_s: float) -> None:
        self.longest_s = longest_s
        self._value, self._second = np.nan, 0.0

    def carry(
        self, values: NDArray[np.float64], seconds: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """Return `values` [n] with each NaN replaced by the last value, unless too old.

        `values`, `seconds`: float64 [n], the next rows' values and times.
        """
        known = np.concatenate([[self._value], values])
        times = np.concatenate([[self._second], seconds])
        has = ~np.isnan(known)
        last = np.maximum.accumulate(np.where(has, np.arange(len(known)), 0))
        age = times - times[last]
        carried = np.where(age <= self.longest_s, known[last], np.nan)
        self._value, self._second = float(known[last[-1]]), float(times[last[-1]])
        return carried[1:]
