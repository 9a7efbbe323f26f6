"""Words in the names of files for devices, places on the body, sensors, parts of data sets."""

from __future__ import annotations

import re
from collections.abc import Collection

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
    found = words(name)
    return frozenset(found) & frozenset(known), tuple(w for w in found if w not in known)
