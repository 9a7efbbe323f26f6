"""Recordings of our own making, written as loggers write them."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
#: Seconds of a recording, which walks in the second half; its start, 2024-05-09 10:00 UTC.
SECONDS, START = 20, 1715248800
#: Rows a second of each sensor.
RATES: Mapping[str, float] = {"acc": 50, "gyro": 25, "mag": 10}
#: Of each sensor, the value that its first axis has at each moment: a slope that tells the time.
SLOPES: Mapping[str, float] = {"acc": 1.0, "gyro": 10.0, "mag": 100.0}


def times(rate: float, seconds: float = SECONDS) -> Array:
    """Return the times of rows, s."""
    return np.asarray(np.arange(round(seconds * rate)) / rate)


def values(sensor: str, t: Array, lively: float = 1.0) -> Array:
    """Return three axes [n, 3] whose first one is a line in time."""
    wave = np.sin(7 * t) * np.where(t < SECONDS / 2, 0.1, 1.0) * lively
    return np.stack([SLOPES[sensor] * t, 5 + wave, 9 - 2 * wave], axis=1)


def table(
    path: Path, head: Sequence[str], rows: Array, form: str = "%.9f", mark: str = ","
) -> Path:
    """Write a table below the lines of a head."""
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = [mark.join(form % value for value in row) for row in rows]
    path.write_text("\n".join([*head, *lines]) + "\n", "utf-8")
    return path


def phyphox(folder: Path, offset: float = 0.0) -> None:
    """Write a recording of phyphox; the gyroscope starts `offset` seconds later."""
    for name, sensor, unit in (
        ("Accelerometer", "acc", "m/s^2"),
        ("Gyroscope", "gyro", "rad/s"),
        ("Magnetometer", "mag", "µT"),
    ):
        t = times(RATES[sensor])
        t = t[t >= offset] if sensor == "gyro" else t
        head = '"Time (s)",' + ",".join(f'"{axis} ({unit})"' for axis in "XYZ")
        table(folder / f"{name}.csv", [head], np.column_stack([t, values(sensor, t)]))
    table(folder / "meta" / "device.csv", ["property,value", "deviceModel,made"], np.zeros((0, 2)))


def sensor_logger(folder: Path) -> None:
    """Write a recording of Sensor Logger, with an annotation at the start of each half."""
    for name, sensor in (("Accelerometer", "acc"), ("Gyroscope", "gyro"), ("Magnetometer", "mag")):
        t = times(RATES[sensor])
        x = values(sensor, t)
        rows = [
            f"{START * 10**9 + round(a * 1e9)},{a:.6f},{z:.6f},{y:.6f},{v:.6f}"
            for a, (v, y, z) in zip(t, x, strict=True)
        ]
        table(folder / f"{name}.csv", ["time,seconds_elapsed,z,y,x", *rows], np.zeros((0, 5)))
    head = "time,seconds_elapsed,text,millisecond_press_duration"
    marks = [f"{(START + s) * 10**9},{s},{name},80" for s, name in ((0, "sit"), (10, "walk"))]
    table(folder / "Annotation.csv", [head, *marks], np.zeros((0, 4)))
    table(folder / "Metadata.csv", ["version,device name", "3,made"], np.zeros((0, 2)))


def empatica(folder: Path, marks: Sequence[float] = (0, 10, 20)) -> None:
    """Write a recording of an Empatica E4, with marks at some seconds."""
    for name, rate, axes in (("ACC", 32, 3), ("BVP", 64, 1), ("EDA", 4, 1), ("TEMP", 4, 1)):
        t = times(rate)
        rows = values("acc", t)[:, :axes] * (64 if name == "ACC" else 1)
        head = [", ".join(f"{each:.6f}" for each in [fact] * axes) for fact in (START, rate)]
        table(folder / f"{name}.csv", head, rows, "%.0f" if name == "ACC" else "%.4f")
    t = times(1, SECONDS - 10)
    table(folder / "HR.csv", [f"{START + 10:.6f}", "1.000000"], t[:, None] + 60, "%.2f")
    head = [f"{START:.6f}, IBI", "0.9,0.85"]
    table(folder / "IBI.csv", head, np.zeros((0, 2)))
    lines = [f"{START + mark:.2f}" for mark in marks]
    table(folder / "tags.csv", lines, np.zeros((0, 1)))
    (folder / "info.txt").write_text(".csv files in this archive are described here\n", "utf-8")


def actigraph(path: Path, timed: bool = True, first: str = "M/d/yyyy") -> None:
    """Write a recording of an ActiGraph at 30 Hz, with or without times and names of columns."""
    day = "5/9/2024" if first[0] == "M" else "9/5/2024"
    head = [
        "------------ Data File Created By ActiGraph GT3X+ ActiLife v6.13.3 Firmware v3.2.1 "
        f"date format {first} at 30 Hz  Filter Normal -----------",
        "Serial Number: TAS1H00000000", "Start Time 10:00:00", f"Start Date {day}",
        "Epoch Period (hh:mm:ss) 00:00:00", "Download Time 11:00:00", f"Download Date {day}",
        "Current Memory Address: 0", "Current Battery Voltage: 4.1     Mode = 12",
        "--------------------------------------------------",
    ]  # fmt: skip
    t = times(30)
    rows = values("acc", t)
    if not timed:
        table(path, head, rows, "%.4f")
        return
    date = "5/9/2024" if first[0] == "M" else "9/5/2024"
    stamps = [f"{date} 10:00:{int(a):02d}.{round(a % 1 * 1000):03d}" for a in t]
    lines = [f"{s},{x:.4f},{y:.4f},{z:.4f}" for s, (x, y, z) in zip(stamps, rows, strict=True)]
    names = "Timestamp,Accelerometer X,Accelerometer Y,Accelerometer Z"
    table(path, [*head, names, *lines], np.zeros((0, 4)))


def shimmer(path: Path, units: str = "m/(s^2)") -> None:
    """Write a recording of a Shimmer, as Consensys exports it."""
    t = times(50)
    names = ["Timestamp_Unix_CAL", *(f"Accel_LN_{axis}_CAL" for axis in "XYZ"), "Battery_CAL"]
    names = [f"Shimmer_A1B2_{name}" for name in names]
    head = ['"sep=\t"', "\t".join(names), "\t".join(["ms", *[units] * 3, "mV"]) + "\t"]
    rows = np.column_stack([(START + t) * 1000, values("acc", t), np.full(len(t), 3900)])
    lines = ["\t".join(f"{value:.4f}" for value in row) + "\t" for row in rows]
    head[1] += "\t"
    table(path, [*head, *lines], np.zeros((0, 5)))


def androsensor(path: Path) -> None:
    """Write a recording of AndroSensor."""
    t = times(50)
    axes = [f"{name} {axis} ({unit})" for name, unit in (
        ("ACCELEROMETER", "m/s²"), ("GYROSCOPE", "rad/s")) for axis in "XYZ"]  # fmt: skip
    head = ["sep=;", ";".join([*axes, "SOUND LEVEL (dB)", "Time since start in ms ",
                               "YYYY-MO-DD HH-MI-SS_SSS"])]  # fmt: skip
    rows = np.column_stack([values("acc", t), values("gyro", t), np.full(len(t), 40), t * 1000])
    lines = [
        ";".join([*(f"{value:.4f}" for value in row[:-1]), f"{row[-1]:.0f}",
                  f"2024-05-09 10:00:{int(row[-1] / 1000):02d}:{int(row[-1] % 1000):03d}"])
        for row in rows
    ]  # fmt: skip
    table(path, [*head, *lines], np.zeros((0, 9)))


#: How each logger writes a recording, into a folder or a file.
WRITERS: Mapping[str, Callable[[Path], None]] = {
    "phyphox": phyphox,
    "sensor-logger": sensor_logger,
    "empatica-e4": empatica,
    "actigraph": actigraph,
    "shimmer": shimmer,
    "androsensor": androsensor,
}
FOLDERS = ("phyphox", "sensor-logger", "empatica-e4")


def written(logger: str, folder: Path, names: Sequence[str]) -> Path:
    """Write a recording of each name into a folder; return the folder."""
    for name in names:
        WRITERS[logger](folder / name if logger in FOLDERS else folder / f"{name}.csv")
    return folder
