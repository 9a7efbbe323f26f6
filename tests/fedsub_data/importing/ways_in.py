"""One small set of recordings, written in every form that an import takes, and imported."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import fedsub
from fedsub_core.data.federation import Federation, read_federation

from .made_tables import imported

#: Columns by person: ``time``, s, features, and ``activity``.
Recordings = dict[str, dict[str, NDArray[Any]]]
RATE, SECONDS = 50, 6
WINDOW = 50
_CLASSES = ("sit", "walk")


def recordings(
    people: int = 4, names: str = "acc_x,acc_y,acc_z,gyro_x,gyro_y,gyro_z", seed: int = 0
) -> Recordings:
    """Return recordings of an accelerometer, m/s^2, and a gyroscope, rad/s.

    Each person sits in the first half and walks in the second. The first axis carries gravity.
    """
    draw = np.random.default_rng(seed)
    made: Recordings = {}
    n = RATE * SECONDS
    for person in range(1, people + 1):
        walks = np.arange(n) >= n // 2
        lively = np.where(walks, 1.0, 0.05)[:, None] * draw.uniform(0.8, 1.2)
        acceleration = [9.8, 0.3, 0.5] + lively * draw.normal(0, 1.5, (n, 3))
        rotation = lively * draw.normal(0, 0.8, (n, 3))
        values = np.concatenate([acceleration, rotation], axis=1)
        columns = dict(zip(names.split(","), values.T.astype(np.float32), strict=True))
        labels = np.array(_CLASSES)[walks.astype(int)].astype(object)
        made[f"k{person}"] = {"time": np.arange(n) / RATE, **columns, "activity": labels}
    return made


def _features(columns: Mapping[str, NDArray[Any]]) -> list[str]:
    """Return the columns of numbers."""
    return [name for name, column in columns.items() if name != "time" and column.dtype != object]


def windows(columns: Mapping[str, NDArray[Any]]) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return windows [n, F, time] and their labels, each that of its first row."""
    x = np.stack([np.asarray(columns[name], np.float32) for name in _features(columns)], axis=1)
    whole = len(x) // WINDOW * WINDOW
    cut = x[:whole].reshape(-1, WINDOW, x.shape[1]).transpose(0, 2, 1)
    return cut, columns["activity"][:whole:WINDOW]


def _frame(columns: Mapping[str, NDArray[Any]]) -> Any:
    import pandas as pd

    return pd.DataFrame(dict(columns))


def _csv(path: Path, columns: Mapping[str, NDArray[Any]]) -> None:
    _frame(columns).to_csv(path, index=False)


def _parquet(path: Path, columns: Mapping[str, NDArray[Any]]) -> None:
    import duckdb

    frame = _frame(columns)
    with duckdb.connect() as db:
        db.register("frame", frame)
        db.execute(f"COPY (SELECT * FROM frame) TO '{path}' (FORMAT parquet)")


def _npz(path: Path, columns: Mapping[str, NDArray[Any]]) -> None:
    arrays: dict[str, Any] = {name: _plain(column) for name, column in columns.items()}
    np.savez(path, **arrays)


def _npy(path: Path, columns: Mapping[str, NDArray[Any]]) -> None:
    plain = {name: _plain(column) for name, column in columns.items()}
    table = np.empty(len(plain["activity"]), [(name, one.dtype) for name, one in plain.items()])
    for name, column in plain.items():
        table[name] = column
    np.save(path, table)


def _plain(column: NDArray[Any]) -> NDArray[Any]:
    return column.astype(str) if column.dtype == object else column


def _npz_of_windows(path: Path, columns: Mapping[str, NDArray[Any]]) -> None:
    x, y = windows(columns)
    np.savez(path, x=x, y=y.astype(str))


def _ts(path: Path, columns: Mapping[str, NDArray[Any]]) -> None:
    x, y = windows(columns)
    classes = " ".join(dict.fromkeys(str(label) for label in y))
    head = ["@problemName made", "@timeStamps false", f"@classLabel true {classes}", "@data"]
    series = [
        ":".join(",".join("?" if np.isnan(v) else f"{v:.6g}" for v in channel) for channel in one)
        for one in x
    ]
    path.write_text("\n".join([*head, *map(":".join, zip(series, y, strict=True))]) + "\n", "utf-8")


#: How each form is written, one file for each person: its ending, and whether rows are windows.
FILES: Mapping[str, tuple[str, bool, Callable[[Path, Mapping[str, NDArray[Any]]], None]]] = {
    "csv": (".csv", False, _csv),
    "parquet": (".parquet", False, _parquet),
    "npz": (".npz", False, _npz),
    "npy": (".npy", False, _npy),
    "npz of windows": (".npz", True, _npz_of_windows),
    "ts": (".ts", True, _ts),
}
FRAME, ARRAYS = "DataFrame", "arrays"
#: Every way in. Windows have neither names of columns nor times.
WAYS = (*FILES, FRAME, ARRAYS)
TABLES = ("csv", "parquet", "npz", "npy", FRAME)


def write(made: Recordings, way: str, folder: Path) -> Path:
    """Write a file for each person into a folder; return the pattern that finds them."""
    ending, _, writes = FILES[way]
    folder.mkdir(parents=True, exist_ok=True)
    for person, columns in made.items():
        writes(folder / f"{person}{ending}", columns)
    return folder / f"*{ending}"


def frame(made: Recordings) -> Any:
    """Return everybody's rows as one DataFrame, the person in a column."""
    import pandas as pd

    return pd.concat([_frame(one).assign(person=name) for name, one in made.items()])


def import_by(way: str, made: Recordings, folder: Path, **options: object) -> Federation:
    """Return the federation that comes of recordings in one form; raises what the import raises."""
    if way == FRAME:
        table = frame(made).reset_index(drop=True)
        return fedsub.federation(table, **({"window": "1s", "overlap": 0.0} | options))
    if way == ARRAYS:
        return fedsub.federation({name: windows(one) for name, one in made.items()}, **options)
    _, of_windows, _ = FILES[way]
    cut = {"window": "auto"} if of_windows else {"window": "1s", "overlap": 0.0}
    imported(write(made, way, folder / "files"), folder / "out", **(cut | options))
    return read_federation(folder / "out")
