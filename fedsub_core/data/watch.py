"""The data set built in: wrist movements of shoulder exercises, 10 people, from a smartwatch.

Burns, Leung, Hardisty, Whyne, Henry and McLachlin, Shoulder physiotherapy exercise recognition:
machine learning the inertial signals from a smartwatch, 2018, arXiv:1802.01489. The recordings
come along in ``datasets/watch``, whose README.md describes them.
"""

from __future__ import annotations

import hashlib
import io
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from fedsub_core.data.federation import Card, ClientData, Federation
from fedsub_core.errors import DataError

#: The folder ``datasets/watch`` where it is installed: no Python in it, only data.
PACKAGE = "fedsub_watch"
FILE = "recordings.npz"
SHA256 = "2512447ca569edb4f6b4cd56492d367290c20bbf4f3f679f0dbe5cb476bb8f29"

RATE_HZ = 50
WINDOW = 128  # samples: 2.56 s
STEP = 64  # samples: an overlap of half a window

CARD = Card(
    name="watch",
    task="shoulder exercise recognition",
    classes=("PEN", "ABD", "FEL", "IR", "ER", "TRAP", "ROW"),
    features=("ax", "ay", "az", "wx", "wy", "wz"),
    units="g, rad/s",
    sampling_rate_hz=float(RATE_HZ),
    window_s=WINDOW / RATE_HZ,
    overlap=1 - STEP / WINDOW,
    time_ordered=True,
    sensors=((0, 1, 2), (3, 4, 5)),
    meanings=(
        "pendulum",
        "abduction",
        "forward elevation",
        "internal rotation",
        "external rotation",
        "trapezius extension",
        "upright row",
    ),
)


def watch_federation() -> Federation:
    """Return the smartwatch recordings as a federation: a client per person, ``01`` to ``10``.

    ``x [n, 6, 128]`` are windows of 2.56 s at 50 Hz, acceleration in g and rotation in rad/s,
    each overlapping the one before by half; ``t`` is a window's start in seconds. Recordings of
    a person follow each other in the file's order with a window's length between them (the
    true pauses are not known), so windows of different recordings never overlap in time.

    Raises DataError where the recordings are not there, or not those that came with FedSub.
    """
    people: dict[str, list[tuple[NDArray[np.float32], int]]] = {}
    for signal, label, person in _recordings(watch_file()):
        people.setdefault(f"{person:02d}", []).append((signal, label))
    return Federation(CARD, {person: _client(person, parts) for person, parts in people.items()})


def watch_file() -> Path:
    """Return where the recordings lie: in the checkout, or where pip put them.

    Raises DataError where they are at neither place.
    """
    # Flower runs an app's Python files from a folder of its own: pip's is asked for by name.
    spec = find_spec(PACKAGE)
    folders = [Path(__file__).resolve().parents[2] / "datasets" / "watch"]
    folders += map(Path, spec.submodule_search_locations or () if spec is not None else ())
    for folder in folders:
        if (folder / FILE).is_file():
            return folder / FILE
    tried = ", ".join(map(str, folders))
    raise DataError(f"data 'watch': {FILE} is at none of {tried}. Reinstall fedsub")


def _recordings(path: Path) -> Iterator[tuple[NDArray[np.float32], int, int]]:
    """Yield each recording: its signals [time, channels], its label, and whose it is."""
    raw = path.read_bytes()
    if (digest := hashlib.sha256(raw).hexdigest()) != SHA256:
        raise DataError(f"{path}: got sha256 {digest}, expected {SHA256}. Reinstall fedsub")
    with np.load(io.BytesIO(raw), allow_pickle=False) as file:
        ends = np.cumsum(file["lengths"])
        signals = np.split(file["signals"], ends[:-1])
        yield from zip(signals, file["labels"].tolist(), file["people"].tolist(), strict=True)


def _client(person: str, recordings: list[tuple[NDArray[np.float32], int]]) -> ClientData:
    windows, labels, starts = zip(*_windows(recordings), strict=True)
    return ClientData(
        person,
        np.stack(windows),
        np.array(labels, np.int64),
        np.array(starts, np.float64) / RATE_HZ,
    )


def _windows(
    recordings: list[tuple[NDArray[np.float32], int]],
) -> Iterator[tuple[NDArray[np.float32], int, int]]:
    """Yield each window ``[channels, time]``, its label and the sample at which it starts."""
    begin = 0
    for signal, label in recordings:
        for start in range(0, len(signal) - WINDOW + 1, STEP):
            yield signal[start : start + WINDOW].T, label, begin + start
        begin += len(signal) + WINDOW
