"""UCI-HAR: a phone's accelerometer and gyroscope at the waist, 30 people, 6 activities.

Anguita, Ghio, Oneto, Parra and Reyes-Ortiz, "A public domain dataset for human activity recognition
using smartphones" (2013). The official files hold windows of 2.56 s at 50 Hz that overlap by half,
already divided by person into train and test; here every person is a client.
"""

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from fedsub_core.data.federation import Card, ClientData, Federation
from fedsub_data.importing.sensors import axes
from fedsub_data.preparing.options import UCIHAROptions
from fedsub_data.preparing.preparation import Counts, Prepared, Progress, refused
from fedsub_data.preparing.uci_har.files import Folder, opened, read_lines, read_table

CLASSES = ("Walking", "Walking upstairs", "Walking downstairs", "Sitting", "Standing", "Laying")
SIGNALS = tuple(f"{s}_{axis}" for s in ("body_acc", "body_gyro", "total_acc") for axis in "xyz")
PEOPLE = range(1, 31)
RATE_HZ = 50.0
WINDOW = 128

_PARTS = ("train", "test")
_FEATURES = 561


def prepare(source: Path, options: UCIHAROptions, workers: int, progress: Progress) -> Prepared:
    """Return UCI-HAR as a federation of 30 people: x [n, 9, 128], g and rad/s, or x [n, 561].

    The order of the recordings in the files is not documented, so `time_ordered` is False. But
    two windows of one recording that follow each other share half their samples, and these are
    equal in the files. So `t` is exact within a recording; recordings lie apart.

    Parameters
    ----------
    source : as for :func:`fedsub_data.preparing.uci_har.files.opened`.
    workers : unused: reading takes seconds.

    Raises DataError where a file is missing, damaged, not as the official ones, or differs from the
    others in its number of lines; where a person is in train and in test, or in neither.
    """
    # One signal suffices to see which windows share samples.
    signals = SIGNALS if options.features == "signals" else SIGNALS[:1]
    total = len(_PARTS) * (len(signals) + (options.features == "561"))
    done = 0
    progress(done, total)
    with opened(source) as folder:
        _check_labels(folder)
        names = SIGNALS if options.features == "signals" else _feature_names(folder)
        people, labels, windows, x = [], [], [], []
        for part in _PARTS:
            people.append(_whole_numbers(folder, f"{part}/subject_{part}.txt", len(PEOPLE)))
            labels.append(_whole_numbers(folder, f"{part}/y_{part}.txt", len(CLASSES)) - 1)
            members = [(f"{part}/Inertial Signals/{s}_{part}.txt", WINDOW) for s in signals]
            if options.features == "561":
                members.append((f"{part}/X_{part}.txt", _FEATURES))
            _check_rows(folder, part, f"y_{part}.txt", len(labels[-1]), len(people[-1]))
            tables = []
            for member, columns in members:
                tables.append(read_table(folder, member, columns))
                name = member.removeprefix(f"{part}/")
                _check_rows(folder, part, name, len(tables[-1]), len(people[-1]))
                done += 1
                progress(done, total)
            windows.append(np.stack(tables[: len(signals)], axis=1))
            x.append(tables[-1] if options.features == "561" else windows[-1])
        for person in np.intersect1d(people[0], people[1]):
            got = f"person {person} in train and in test"
            raise refused(str(folder), got, "each in one of them")
    whole = np.concatenate(people), np.concatenate(labels), np.concatenate(windows)
    return _federation(options, names, *whole, np.concatenate(x), str(folder))


def starts(windows: NDArray[np.float32]) -> NDArray[np.float64]:
    """Return the seconds [n] at which a person's windows [n, channels, 128] start.

    A window whose first half is the last half of the one before starts half a window later. Any
    other starts a stretch of its own, a window's length after the end of the one before.
    """
    half = WINDOW // 2
    follows = (windows[:-1, :, half:] == windows[1:, :, :half]).all(axis=(1, 2))
    steps = np.where(follows, half, 2 * WINDOW)
    return np.concatenate([[0], np.cumsum(steps)]) / RATE_HZ


def _federation(
    options: UCIHAROptions,
    names: tuple[str, ...],
    people: NDArray[np.int64],
    labels: NDArray[np.int64],
    windows: NDArray[np.float32],
    x: NDArray[np.float32],
    where: str,
) -> Prepared:
    counts = Counts({"rows read": len(people), "stretches of overlapping windows": 0})
    clients = {}
    for person in PEOPLE:
        mine = people == person
        if not mine.any():
            raise refused(where, f"no window of person {person}", "some of each of the 30")
        t = starts(windows[mine])
        counts.add("stretches of overlapping windows", 1 + int((np.diff(t) > 2.56).sum()))
        name = f"{person:02d}"
        clients[name] = ClientData(name, x[mine], labels[mine], t)
    counts.add("windows kept", sum(len(client.y) for client in clients.values()))
    counts.add("people", len(clients))
    signals = options.features == "signals"
    card = Card(
        name="uci-har" if signals else "uci-har-561",
        task="human activity recognition",
        classes=CLASSES,
        features=names,
        units="g, rad/s" if signals else "scaled to -1 .. 1",
        sampling_rate_hz=RATE_HZ if signals else None,
        window_s=WINDOW / RATE_HZ,
        overlap=0.5,
        time_ordered=False,
        sensors=axes(names) if signals else None,
    )
    return Prepared(Federation(card, clients), counts)


def _check_labels(folder: Folder) -> None:
    member = "activity_labels.txt"
    lines = [line.strip() for line in read_lines(folder, member)]
    expected = [f"{i} {name.upper().replace(' ', '_')}" for i, name in enumerate(CLASSES, start=1)]
    for number, (got, official) in enumerate(zip(lines, expected, strict=False), start=1):
        if got != official:
            raise refused(str(folder / member), repr(got), repr(official), number)
    if len(lines) != len(expected):
        raise refused(str(folder / member), f"{len(lines)} lines", f"{len(expected)}")


def _feature_names(folder: Folder) -> tuple[str, ...]:
    """Return the 561 names; those that are there again (bands of y and z) get ``#2``, ``#3``."""
    member = "features.txt"
    lines = read_lines(folder, member)
    seen: dict[str, int] = {}
    names = []
    for number, line in enumerate(lines, start=1):
        place, _, name = line.strip().partition(" ")
        if place != str(number) or not name:
            expected = f"'{number} ' and a feature's name"
            raise refused(str(folder / member), repr(line), expected, number)
        seen[name] = seen.get(name, 0) + 1
        names.append(name if seen[name] == 1 else f"{name}#{seen[name]}")
    if len(names) != _FEATURES:
        raise refused(str(folder / member), f"{len(names)} names", f"{_FEATURES}")
    return tuple(names)


def _whole_numbers(folder: Folder, member: str, most: int) -> NDArray[np.int64]:
    """Return the numbers [n] of a member with one on a line, from 1 to `most`."""
    known = {str(i): i for i in range(1, most + 1)}
    numbers = []
    for number, line in enumerate(read_lines(folder, member), start=1):
        if line.strip() not in known:
            expected = f"a whole number from 1 to {most}"
            raise refused(str(folder / member), repr(line), expected, number)
        numbers.append(known[line.strip()])
    return np.array(numbers, np.int64)


def _check_rows(folder: Folder, part: str, name: str, got: int, expected: int) -> None:
    if got != expected:
        words = f"{expected} as in {part}/subject_{part}.txt; is the file whole?"
        raise refused(str(folder / part / name), f"{got} lines", words)
