"""DREAMT: sleep and wake from a wristband, 100 people, one night each.

Source: K. Wang, J. Yang, A. Shetty, J. Dunn, *DREAMT: Dataset for Real-time sleep stage EstimAtion
using Multisensor wearable Technology*, PhysioNet, https://doi.org/10.13026/62an-cb28 (credentialed
access). Read is ``data_64Hz``: the signals of an Empatica E4 and the stage that technicians scored,
64 rows a second. FedSub's sleep scenario takes the eight signals and the classes Sleep and Wake.
"""

from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from fedsub_core.data.federation import Card, ClientData, Federation
from fedsub_data.preparing.members import Member, find_members
from fedsub_data.preparing.options import DREAMTOptions
from fedsub_data.preparing.preparation import Counts, Prepared, Progress, each_person, refused
from fedsub_data.preparing.tables import Rows, Table, read_table
from fedsub_data.preparing.windows import Clock, stretches, window_starts

RATE_HZ = 64
SIGNALS = ("BVP", "IBI", "EDA", "TEMP", "HR", "ACC_X", "ACC_Y", "ACC_Z")
STAGES = ("W", "N1", "N2", "N3", "R", "P", "Missing")
EVENTS = ("Obstructive_Apnea", "Central_Apnea", "Hypopnea", "Multiple_Events")
TABLE = Table(
    columns=(
        *("TIMESTAMP", "BVP", "ACC_X", "ACC_Y", "ACC_Z", "TEMP", "EDA", "HR", "IBI"),
        *("Sleep_Stage", *EVENTS),
    ),
    numbers=("TIMESTAMP", *SIGNALS),
    words={"Sleep_Stage": STAGES},
    may_be_blank=SIGNALS,
)

#: Names of the classes, and the class of each stage; -1: unscored, P (preparation) and Missing.
CLASSES: dict[str, tuple[tuple[str, ...], tuple[int, ...]]] = {
    "sleep-wake": (("Sleep", "Wake"), (1, 0, 0, 0, 0, -1, -1)),
    "stages": (("Wake", "N1", "N2", "N3", "REM"), (0, 1, 2, 3, 4, -1, -1)),
}

_FILES = r"(?:.*/)?S\d{3}_whole_df\.csv"
_EXPECTED = "DREAMT's folder data_64Hz with S002_whole_df.csv and so on, or what holds it"


def prepare(source: Path, options: DREAMTOptions, workers: int, progress: Progress) -> Prepared:
    """Return DREAMT as a federation, x [n, 8]: means of the signals over windows.

    Windows lie inside stretches without pause or unscored row, the first at a stretch's start, as
    the scoring's 30 s epochs do. A window has the class of most of its rows, in a tie that of its
    first. A signal's mean is over the rows in which it has a value (IBI has none before the first
    beats). A night is read as a stream.

    Raises DataError where files are missing or not in the official format, or a person has no
    window left.
    """
    nights = find_members(source, _FILES, _EXPECTED)
    counts, clients = Counts(), {}
    for data, counted in each_person(partial(_person, options=options), nights, workers, progress):
        clients[data.client] = data
        counts.merge(counted)
    card = Card(
        name="dreamt",
        task="sleep detection" if options.labels == "sleep-wake" else "sleep stage recognition",
        classes=CLASSES[options.labels][0],
        features=tuple(f"{signal} mean" for signal in SIGNALS),
        units="BVP as the E4 gives it, IBI s, EDA uS, TEMP Celsius, HR bpm, ACC 1/64 g",
        window_s=options.window_s,
        overlap=options.overlap,
        time_ordered=True,
    )
    return Prepared(Federation(card, clients), counts)


def _person(night: Member, options: DREAMTOptions) -> tuple[ClientData, Counts]:
    windows = _Windows(night, options)
    with night.open() as file:
        for rows in read_table(file, night, TABLE):
            windows.add(rows)
    windows.cut("the end")
    client = night.name.removesuffix("_whole_df.csv")
    if not windows.y:
        got = f"no window for {client} from {windows.counts['rows read']} rows"
        raise refused(str(night), got, f"{options.window_s:g} s of scored sleep without a pause")
    counts = windows.counts
    counts.add("people")
    x, t = np.array(windows.x, np.float32), np.array(windows.t, np.float64)
    return ClientData(client, x, np.array(windows.y, np.int64), t), counts


class _Windows:
    """The windows of a night; keeps of the rows only those that the next window needs."""

    def __init__(self, night: Member, options: DREAMTOptions) -> None:
        self.width = round(options.window_s * RATE_HZ)
        self.step = max(1, round(self.width * (1 - options.overlap)))
        self.class_of = np.array(CLASSES[options.labels][1])
        self.clock = Clock(night, RATE_HZ)
        self.x: list[NDArray[np.float64]] = []
        self.y: list[int] = []
        self.t: list[float] = []
        dropped = ("rows dropped: stage P", "rows dropped: stage Missing")
        kept = ("windows kept", "windows dropped: cut by an unscored row")
        self.counts = Counts.zero("rows read", *dropped, *kept)
        self._rows = np.empty((0, 1 + len(SIGNALS)))
        self._label = np.empty(0, np.int64)
        self._covered = 0  # how many of the kept rows an earlier window holds

    def add(self, rows: Rows) -> None:
        """Make the windows that the next rows complete."""
        stage = rows.words["Sleep_Stage"]
        self.counts.add("rows read", len(stage))
        for unscored in ("P", "Missing"):
            dropped = int(np.count_nonzero(stage == STAGES.index(unscored)))
            self.counts.add(f"rows dropped: stage {unscored}", dropped)
        label = self.class_of[stage]
        pauses = self.clock.pauses(rows.numbers[:, 0], rows.line)
        for start, end in stretches(label >= 0, breaks=pauses):
            if pauses[start]:
                self.cut("a pause")
            if label[start] < 0:
                self.cut("an unscored row")
            else:
                self._extend(rows.numbers[start:end], label[start:end])

    def cut(self, by: str) -> None:
        """End the stretch; what is left of it, unless in a window already, is lost."""
        if len(self._label) > self._covered:
            self.counts.add(f"windows dropped: cut by {by}")
        self._rows, self._label, self._covered = self._rows[:0], self._label[:0], 0

    def _extend(self, rows: NDArray[np.float64], label: NDArray[np.int64]) -> None:
        rows = np.concatenate([self._rows, rows])
        label = np.concatenate([self._label, label])
        starts = window_starts(0, len(label), self.width, self.step)
        for start in starts:
            self._window(rows[start : start + self.width], label[start : start + self.width])
        # Copies, so that the whole block's arrays can go.
        self._rows = rows[len(starts) * self.step :].copy()
        self._label = label[len(starts) * self.step :].copy()
        if starts:
            self._covered = self.width - self.step

    def _window(self, rows: NDArray[np.float64], label: NDArray[np.int64]) -> None:
        signals = rows[:, 1:]
        known = ~np.isnan(signals)
        present = known.sum(axis=0)
        if not present.all():
            missing = SIGNALS[int(np.argmin(present))]
            self.counts.add(f"windows dropped: no value of {missing}")
            return
        votes = 2 * np.bincount(label)
        votes[label[0]] += 1
        self.x.append(np.where(known, signals, 0.0).sum(axis=0) / present)
        self.y.append(int(np.argmax(votes)))
        self.t.append(float(rows[0, 0]))
        self.counts.add("windows kept")
