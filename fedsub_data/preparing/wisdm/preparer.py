"""WISDM v1.1: a phone's accelerometer in the pocket, 36 people, 6 activities.

Kwapisz, Weiss and Moore, "Activity recognition using cell phone accelerometers" (2010). From the
raw rows at 20 Hz windows are cut here; the file of transformed windows can be used instead.
"""

import io
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from fedsub_core.data.federation import Card, ClientData, Federation
from fedsub_core.errors import ConfigError
from fedsub_data.importing.sensors import axes
from fedsub_data.preparing.members import damaged, each_file
from fedsub_data.preparing.options import WISDMOptions
from fedsub_data.preparing.preparation import Counts, Prepared, Progress, refused
from fedsub_data.preparing.unpacking import DAMAGED, unpacked
from fedsub_data.preparing.wisdm.arff import FEATURES, WINDOW_S, read_windows
from fedsub_data.preparing.wisdm.raw import CLASSES, PEOPLE, read_rows
from fedsub_data.preparing.wisdm.windows import AXES, RATE_HZ, STATISTICS, cut

_TASK = "human activity recognition"
_TRANSFORMED_UNITS = (
    "X0 to Z9: share of samples; PEAK: ms; AVG, ABSOLDEV, STANDDEV, RESULTANT: m/s^2"
)
ARCHIVE = "WISDM_ar_latest.tar.gz"
FOLDER = "WISDM_ar_v1.1"
RAW = "WISDM_ar_v1.1_raw.txt"
TRANSFORMED = "WISDM_ar_v1.1_transformed.arff"
_TAR = (".tar.gz", ".tgz", ".tar")
_FEATURES = {RAW: "mean, stats or raw", TRANSFORMED: "transformed"}


def prepare(source: Path, options: WISDMOptions, workers: int, progress: Progress) -> Prepared:
    """Return WISDM as a federation of 36 people: x [n, F] or [n, 3, time], m/s^2.

    Parameters
    ----------
    source : ``WISDM_ar_latest.tar.gz``, its unpacked folder, or its raw or transformed file.
    workers : unused: one pass over one file takes seconds.

    Raises DataError as :func:`opened`, :func:`read_rows` and :func:`read_windows`, and where no
    window of a person is left. Raises ConfigError where an option is set that the chosen features
    do not have.
    """
    transformed = options.features == "transformed"
    for name in ("window_s", "overlap") if transformed else ("missing",):
        if getattr(options, name) != getattr(WISDMOptions(), name):
            raise ConfigError(
                f"{name.replace('_', '-')}: got {getattr(options, name)!r}, but features = "
                f"{options.features} has no such option. Leave it out."
            )
    progress(0, len(PEOPLE))
    if transformed:
        return _transformed(source, options, progress)
    return _windowed(source, options, progress)


def _windowed(source: Path, options: WISDMOptions, progress: Progress) -> Prepared:
    with opened(source, RAW) as (path, lines):
        rows, counts = read_rows(lines, path)
    windows = cut(rows, options.window_s, options.overlap, counts)
    clients = {}
    for user in PEOPLE:
        mine = np.flatnonzero(windows.user == user)
        _check_left(mine, user, path, int((rows.user == user).sum()))
        name = f"{user:02d}"
        x = windows.features(rows, mine, options.features)
        clients[name] = ClientData(name, x, windows.label[mine], windows.t[mine])
        progress(user, len(PEOPLE))
    if options.features == "raw":
        columns: tuple[str, ...] = AXES
    else:
        statistics = ("mean",) if options.features == "mean" else STATISTICS
        columns = tuple(f"{axis}_{statistic}" for axis in AXES for statistic in statistics)
    card = Card(
        name="wisdm",
        task=_TASK,
        classes=CLASSES,
        features=columns,
        units="m/s^2",
        sampling_rate_hz=RATE_HZ if options.features == "raw" else None,
        window_s=windows.length / RATE_HZ,
        overlap=1 - windows.step / windows.length,
        time_ordered=True,
        sensors=axes(columns) if options.features == "raw" else None,
    )
    return _prepared(card, clients, counts)


def _transformed(source: Path, options: WISDMOptions, progress: Progress) -> Prepared:
    with opened(source, TRANSFORMED) as (path, lines):
        users, labels, table, counts = read_windows(lines, path)
    read = users
    names = np.array(FEATURES)
    missing = np.isnan(table)
    if options.missing == "rows":
        whole = ~missing.any(axis=1)
        counts.add("rows dropped: missing value", int((~whole).sum()))
        users, labels, table = users[whole], labels[whole], table[whole]
    else:
        keep = ~missing.any(axis=0)
        counts.add("columns dropped: missing values", int((~keep).sum()))
        names, table = names[keep], table[:, keep]
    names, table = _informative(names, table, counts)
    clients = {}
    for user in PEOPLE:
        mine = users == user
        _check_left(np.flatnonzero(mine), user, path, int((read == user).sum()))
        name = f"{user:02d}"
        clients[name] = ClientData(name, table[mine].astype(np.float32), labels[mine])
        progress(user, len(PEOPLE))
    card = Card(
        name="wisdm-transformed",
        task=_TASK,
        classes=CLASSES,
        features=tuple(names.tolist()),
        units=_TRANSFORMED_UNITS,
        window_s=WINDOW_S,
    )
    return _prepared(card, clients, counts)


def _informative(
    names: NDArray[np.str_], table: NDArray[np.float64], counts: Counts
) -> tuple[NDArray[np.str_], NDArray[np.float64]]:
    """Return the columns without those that are constant or the same as an earlier one."""
    varied = (table != table[:1]).any(axis=0)
    counts.add("columns dropped: constant", int((~varied).sum()))
    names, table = names[varied], table[:, varied]
    first = np.sort(np.unique(table, axis=1, return_index=True)[1])
    counts.add("columns dropped: same as an earlier one", len(names) - len(first))
    return names[first], table[:, first]


def _check_left(mine: NDArray[np.int64], user: int, path: str, rows: int) -> None:
    if len(mine) == 0:
        got = f"no window of user {user} out of {rows} rows"
        raise refused(path, got, "one at least of each of the 36 users; is the file whole?")


def _prepared(card: Card, clients: dict[str, ClientData], counts: Counts) -> Prepared:
    counts.add("windows kept", sum(len(client.y) for client in clients.values()))
    counts.add("people", len(clients))
    return Prepared(Federation(card, clients), counts)


@contextmanager
def opened(source: Path, official: str) -> Iterator[tuple[str, Iterable[bytes]]]:
    """Yield the name and the lines, in bytes, of the `official` file in `source`.

    Parameters
    ----------
    source : the archive as downloaded, a folder that holds it or its unpacked folder, or the file
        itself, whatever its name before ``.txt`` or ``.arff``; ``.xz`` may follow.
    official : {RAW, TRANSFORMED}
        Nothing of an archive is written anywhere.

    Raises DataError where the file is not there, or is damaged or truncated, also while its lines
    are read.
    """
    path = _located(source, official)
    try:
        if path.name.lower().endswith(_TAR):
            with closing(each_file(path, [official])) as files:
                if (member_found := next(files, None)) is None:
                    expected = f"{ARCHIVE}, which has it"
                    raise refused(path, f"an archive without {official}", expected)
                _, where, member, _ = member_found
                yield where, member
        else:
            with unpacked(path) as file:
                yield str(path), io.BufferedReader(file)
    except DAMAGED as error:
        raise damaged(path, error) from error


def _located(source: Path, official: str) -> Path:
    expected = f"{ARCHIVE}, its folder {FOLDER} or {official} for features = {_FEATURES[official]}"
    if source.is_dir():
        names = (official, f"{official}.xz", f"{FOLDER}/{official}", ARCHIVE)
        for path in (source / name for name in names):
            if path.is_file():
                return path
        raise refused(source, "a folder without it", expected)
    if not source.is_file():
        raise refused(source, "no such file or folder", expected)
    name = source.name.lower()
    if name.endswith(_TAR) or name.removesuffix(".xz").endswith(Path(official).suffix):
        return source
    raise refused(source, f"a file that ends in {source.suffix!r}", expected)
