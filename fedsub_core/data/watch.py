"""The data set built in: wrist movements of shoulder exercises, 10 people, from a smartwatch.

Burns, Leung, Hardisty, Whyne, Henry and McLachlin, Shoulder physiotherapy exercise recognition:
machine learning the inertial signals from a smartwatch, 2018, arXiv:1802.01489. The recordings
come with the package seglearn; ``datasets/watch/README.md`` describes them.
"""

from __future__ import annotations

import hashlib
import io
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedsub_core.data.federation import Card, ClientData, Federation
from fedsub_core.data.unpickling import ArraysOnly
from fedsub_core.errors import DataError

PACKAGE = "seglearn"
VERSION = "1.2.5"
FILE = "seglearn/data/watch_dataset.npy"
SHA256 = "eb122f23cdf06ef6bd6c6c5312958ec5cf9d038e2e6d457b8081662c75a42537"

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

    Raises
    ------
    DataError
        Where the package is not installed, or its file is not the one of version 1.2.5.
    """
    people: dict[str, list[tuple[NDArray[np.float64], int]]] = {}
    recordings = _read(watch_file())
    for signal, label, person in zip(
        recordings["X"], recordings["y"], recordings["subject"], strict=True
    ):
        people.setdefault(f"{int(person):02d}", []).append((signal, int(label)))
    return Federation(CARD, {person: _client(person, parts) for person, parts in people.items()})


def watch_file() -> Path:
    """Return where the recordings are installed, without importing the package.

    Raises
    ------
    DataError
        Where they are not.
    """
    try:
        path = Path(str(distribution(PACKAGE).locate_file(FILE)))
    except PackageNotFoundError as error:
        raise DataError(
            f"data 'watch': the package {PACKAGE} is not installed; it brings the recordings. "
            f"Run: pip install {PACKAGE}=={VERSION}"
        ) from error
    if not path.is_file():
        raise DataError(
            f"{path}: no such file; expected the recordings of {PACKAGE} {VERSION}. "
            f"Run: pip install --force-reinstall {PACKAGE}=={VERSION}"
        )
    return path


def _read(path: Path) -> dict[str, Any]:
    raw = path.read_bytes()
    digest = hashlib.sha256(raw).hexdigest()
    if digest != SHA256:
        raise DataError(
            f"{path}: got sha256 {digest}, expected {SHA256}, that of {PACKAGE} {VERSION}. "
            f"Run: pip install --force-reinstall {PACKAGE}=={VERSION}"
        )
    file = io.BytesIO(raw)
    np.lib.format.read_magic(file)
    np.lib.format.read_array_header_1_0(file)
    recordings: dict[str, Any] = ArraysOnly(file).load().item()
    return recordings


def _client(person: str, recordings: list[tuple[NDArray[np.float64], int]]) -> ClientData:
    windows, labels, starts = zip(*_windows(recordings), strict=True)
    return ClientData(
        person,
        np.stack(windows).astype(np.float32),
        np.array(labels, np.int64),
        np.array(starts, np.float64) / RATE_HZ,
    )


def _windows(
    recordings: list[tuple[NDArray[np.float64], int]],
) -> Iterator[tuple[NDArray[np.float64], int, int]]:
    """Yield each window ``[channels, time]``, its label and the sample at which it starts."""
    begin = 0
    for signal, label in recordings:
        for start in range(0, len(signal) - WINDOW + 1, STEP):
            yield signal[start : start + WINDOW].T, label, begin + start
        begin += len(signal) + WINDOW
