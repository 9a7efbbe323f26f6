"""HHAR: six activities of nine people, each with eight phones of four models round the waist.

Source: A. Stisen et al., *Smart Devices are Different: Assessing and Mitigating Mobile Sensing
Heterogeneities for Activity Recognition*, SenSys 2015; https://archive.ics.uci.edu/dataset/344.
Read is ``Phones_accelerometer.csv``. Phones record at 50 to 200 Hz, so windows are by time: of
``Arrival_Time``, since ``Creation_Time`` is on each phone's own clock.
"""

from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedsub_core.data.federation import Card, ClientData, Federation
from fedsub_core.errors import DataError
from fedsub_data.importing.sensors import axes
from fedsub_data.preparing.hhar.windows import Samples, Windows, split, whole
from fedsub_data.preparing.members import find_members
from fedsub_data.preparing.options import HHAROptions
from fedsub_data.preparing.preparation import Counts, Prepared, Progress, refused
from fedsub_data.preparing.tables import Rows, Table, read_table

CLASSES = ("stand", "sit", "walk", "stairsup", "stairsdown", "bike")
MODELS = ("nexus4", "s3", "s3mini", "samsungold")
USERS = tuple("abcdefghi")
DEVICES = tuple(f"{model}_{number}" for model in MODELS for number in (1, 2))
STATISTICS = ("mean", "std", "min", "max")
TABLE = Table(
    columns=(
        *("Index", "Arrival_Time", "Creation_Time", "x", "y", "z"),
        *("User", "Model", "Device", "gt"),
    ),
    numbers=("Arrival_Time", "x", "y", "z"),
    words={"User": USERS, "Model": MODELS, "Device": DEVICES, "gt": (*CLASSES, "null", "nan", "")},
)
#: What raw windows are resampled to: the rate of the slowest phone.
RAW_HZ = 50
#: Half of that rate: with fewer rows, a window is not what the phone recorded.
_LEAST_HZ = 25
#: More rows than any phone sends in a window: the time stands still, and rows would pile up.
_MOST_ROWS = 100_000

_FILES = r"(?:.*/)?Phones_accelerometer\.csv"
_EXPECTED = "'Activity recognition exp.zip', or a folder with Phones_accelerometer.csv"


def prepare(source: Path, options: HHAROptions, workers: int, progress: Progress) -> Prepared:
    """Return HHAR as a federation: x [n, 3] means, [n, 12] statistics or [n, 3, 50] raw, m/s^2.

    Rows without an activity are dropped. Windows are whole seconds (multiples of ``window_s``) of
    the arrival time, without overlap; one with two activities, too few rows or too long a gap is
    dropped. Windows of a person's phones at the same time have the same t. The file is read as a
    stream by one process; `progress` counts its bytes.

    Raises DataError where the file is missing or not in the official format, or a person has no
    window left.
    """
    (member,) = find_members(source, _FILES, _EXPECTED)
    phones, total = _Phones(str(member), options), member.size()
    with member.open() as file:
        for rows in read_table(file, member, TABLE):
            phones.add(rows)
            progress(file.tell(), total)
    phones.close()
    card = Card(
        name="hhar",
        task="activity recognition",
        classes=CLASSES,
        features=_names(options.features),
        units="m/s^2",
        sampling_rate_hz=float(RAW_HZ) if options.features == "raw" else None,
        window_s=options.window_s,
        time_ordered=True,
        sensors=axes(_names("raw")) if options.features == "raw" else None,
    )
    return Prepared(Federation(card, phones.clients()), phones.counts)


def _names(features: str) -> tuple[str, ...]:
    if features == "raw":
        return ("x", "y", "z")
    statistics = STATISTICS if features == "stats" else STATISTICS[:1]
    return tuple(f"{axis} {statistic}" for statistic in statistics for axis in "xyz")


class _Phones:
    """The windows of every phone of every person; keeps the rows of each one's open window."""

    def __init__(self, path: str, options: HHAROptions) -> None:
        self.path, self.options = path, options
        self.least = max(1, int(_LEAST_HZ * options.window_s))
        self.at = np.arange(round(options.window_s * RAW_HZ)) / RAW_HZ
        self.counts = Counts.zero("rows read", "rows dropped: no activity", "windows kept")
        self._open: dict[tuple[int, int], Samples] = {}
        self._made: defaultdict[tuple[int, int], list[tuple[NDArray[Any], ...]]]
        self._made = defaultdict(list)

    def add(self, rows: Rows) -> None:
        """Make the windows that the next rows complete."""
        user, device, label = (rows.words[name] for name in ("User", "Device", "gt"))
        phone = user * len(DEVICES) + device
        self.counts.add("rows read", len(label))
        for key in np.unique(phone).tolist():
            pair = divmod(key, len(DEVICES))
            self._made[pair] += []  # known, even where it has no window
            own = np.flatnonzero((phone == key) & (label < len(CLASSES)))
            if len(own):
                numbers = rows.numbers[own]
                samples = Samples(numbers[:, 0] / 1000, numbers[:, 1:], label[own])
                if pair in self._open:
                    samples = samples.after(self._open[pair])
                windows, self._open[pair] = split(samples, self.options.window_s)
                if len(self._open[pair].seconds) > _MOST_ROWS:
                    raise self._standstill(pair, rows.line)
                if windows is not None:
                    self._keep(pair, windows)
        unlabelled = int(np.count_nonzero(label >= len(CLASSES)))
        self.counts.add("rows dropped: no activity", unlabelled)

    def close(self) -> None:
        """Make the windows that were open at the end of the file."""
        for pair, samples in self._open.items():
            self._keep(pair, whole(samples, self.options.window_s))

    def clients(self) -> dict[str, ClientData]:
        """Return the clients; a person without a window is refused, a phone dropped."""
        if not self._made:
            raise refused(self.path, "no row", "the recordings of nine people; fetch it again")
        grouped: dict[str, list[tuple[NDArray[Any], ...]]] = {}
        people = sorted({user for user, _ in self._made})
        for user in people:
            mine = {pair[1]: made for pair, made in sorted(self._made.items()) if pair[0] == user}
            if not any(mine.values()):
                expected = "a second of one activity from one phone"
                raise refused(self.path, f"no window for person {USERS[user]!r}", expected)
            for device, made in mine.items():
                each = self.options.clients == "device"
                client = f"{USERS[user]}-{DEVICES[device]}" if each else USERS[user]
                if made:
                    grouped.setdefault(client, []).extend(made)
                elif each:
                    self.counts.add("phones dropped: no window")
        self.counts.add("people", len(people))
        return {client: _client(client, made) for client, made in grouped.items()}

    def _standstill(self, pair: tuple[int, int], line: int) -> DataError:
        got = f"over {_MOST_ROWS} rows of {USERS[pair[0]]}'s {DEVICES[pair[1]]} in one window"
        return refused(self.path, got, "an Arrival_Time that moves on", line)

    def _keep(self, pair: tuple[int, int], windows: Windows) -> None:
        few = windows.rows < self.least
        gap = (windows.gap > self.options.gap_s) & ~few
        mixed = windows.mixed & ~few & ~gap
        for why, dropped in (("too few rows", few), ("a gap", gap), ("two activities", mixed)):
            self.counts.add(f"windows dropped: {why}", int(dropped.sum()))
        kept = np.flatnonzero(~(few | gap | mixed))
        if not len(kept):
            return
        self.counts.add("windows kept", len(kept))
        if self.options.features == "raw":
            x = np.stack([windows.resampled(which, self.at) for which in kept.tolist()])
        else:
            x = windows.statistics()[kept, : len(_names(self.options.features))]
        made = (x.astype(np.float32), windows.label[kept], windows.second[kept])
        self._made[pair].append(made)


def _client(client: str, made: list[tuple[NDArray[Any], ...]]) -> ClientData:
    x, y, t = (np.concatenate(part) for part in zip(*made, strict=True))
    order = np.argsort(t, kind="stable")
    return ClientData(client, x[order], y[order], t[order])
