"""Official files of recordings, as their data sets' authors wrote them."""

import re
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

SIGNALS = [f"{s}_{axis}" for s in ("body_acc", "body_gyro", "total_acc") for axis in "xyz"]
TEST_PEOPLE = (2, 4, 9, 10, 12, 13, 18, 20, 24)
LABELS = "1 WALKING\n2 WALKING_UPSTAIRS\n3 WALKING_DOWNSTAIRS\n4 SITTING\n5 STANDING\n6 LAYING\n"
Floats = NDArray[np.float64]


def _official(numbers: Floats) -> str:
    """Return rows as MATLAB wrote them: 16 wide, 8 digits, three in the exponent."""
    text = "\n".join("".join(f"{v:16.7e}" for v in row) for row in numbers) + "\n"
    return re.sub(r" ?([-\d.]+e[-+])(\d\d)(?!\d)", r"\g<1>0\2", text)


def uci_har(folder: Path, people: dict[int, tuple[list[int], Floats]]) -> None:
    """Write windows [n, 9, 128] of each person, and 561 features, in the official form."""
    folder.mkdir()
    (folder / "activity_labels.txt").write_text(LABELS)
    names = [f"feature{i}()-X" for i in range(558)] + ["bandsEnergy()-1,8"] * 3
    (folder / "features.txt").write_text("".join(f"{i} {n}\n" for i, n in enumerate(names, 1)))
    for part in ("train", "test"):
        mine = {p: data for p, data in people.items() if (p in TEST_PEOPLE) == (part == "test")}
        windows = np.concatenate([data[1] for data in mine.values()])
        (folder / part / "Inertial Signals").mkdir(parents=True)
        files = {
            f"subject_{part}.txt": "".join(f"{p}\n" for p, d in mine.items() for _ in d[0]),
            f"y_{part}.txt": "".join(f"{label}\n" for d in mine.values() for label in d[0]),
            f"X_{part}.txt": _official(windows.reshape(len(windows), -1)[:, :561]),
        }
        for channel, name in enumerate(SIGNALS):
            files[f"Inertial Signals/{name}_{part}.txt"] = _official(windows[:, channel])
        for name, text in files.items():
            (folder / part / name).write_text(text)


def wisdm_raw(
    path: Path, people: dict[int, tuple[list[str], NDArray[np.float64]]], hz: float = 20.0
) -> Path:
    """Write WISDM's raw file of windows [n, 3, time] of each person, and their activities.

    One window follows another. Stamps are nanoseconds.
    """
    step = round(1e9 / hz)
    with open(path, "w", encoding="utf-8") as file:
        for person, (activities, windows) in people.items():
            stamp = 10**12
            for activity, window in zip(activities, windows, strict=True):
                for x, y, z in window.T:
                    stamp += step
                    file.write(f"{person},{activity},{stamp},{x:.8g},{y:.8g},{z:.8g};\n")
    return path
