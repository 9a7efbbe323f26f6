"""Rows of a table as a file: CSV, or Parquet by DuckDB."""

from __future__ import annotations

import csv
import io
import tempfile
from collections.abc import Iterable
from itertools import groupby
from pathlib import Path

import numpy as np

from fedsub.predictions.tables import PROBABILITY, Row
from fedsub.predictions.tested import Predicted
from fedsub_core.errors import RunError
from fedsub_core.extras import require
from fedsub_core.files import make_folder, write_whole

#: A run's predictions in its folder.
PREDICTIONS = "predictions.csv"
_WHOSE = ("person", "method", "seed", "round")


def write_rows(path: Path, rows: Iterable[Row]) -> None:
    """Write rows with the same columns into a file that ends in .csv or .parquet, whole.

    Raises
    ------
    ConfigError
        If it is Parquet, and DuckDB or pandas is not installed.
    RunError
        If there is no row, or the file cannot be written.
    """
    found = list(rows)
    if not found:
        raise RunError(f"{path}: got no row, expected one at least")
    make_folder(path.parent)
    write_whole(path, _parquet(found) if path.suffix == ".parquet" else _csv(found))


def read_predictions(path: Path) -> list[Predicted]:
    """Return the predictions of a CSV file, as they were written.

    Raises
    ------
    RunError
        If a row is not one of a prediction; it is named.
    """
    found = []
    with path.open(newline="", encoding="utf-8") as file:
        reader = csv.DictReader(file)
        columns = [one for one in reader.fieldnames or () if one.startswith(PROBABILITY)]
        place = {one.removeprefix(PROBABILITY): i for i, one in enumerate(columns)}
        try:
            for whose, group in groupby(reader, lambda row: tuple(row[key] for key in _WHOSE)):
                rows = list(group)
                person, method, seed, round = whose
                times = [row["t"] for row in rows]
                one = Predicted(
                    person,
                    method,
                    int(seed),
                    int(round),
                    np.array([int(row["index"]) for row in rows]),
                    np.array([float(t) for t in times]) if all(times) else None,
                    np.array([place[row["class"]] for row in rows]),
                    np.array([[float(row[name]) for name in columns] for row in rows], np.float32),
                    rows[0].get("fold") or "",
                )
                found.append(one)
        except (KeyError, TypeError, ValueError) as error:
            raise RunError(
                f"{path}, line {reader.line_num}: got no prediction ({error!r}), expected rows as "
                "fedsub predictions writes them: write the file anew"
            ) from error
    return found


def _csv(rows: list[Row]) -> bytes:
    text = io.StringIO(newline="")
    writer = csv.DictWriter(text, list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue().encode()


def _parquet(rows: list[Row]) -> bytes:
    for package in ("duckdb", "pandas"):
        require("Parquet files", package)
    import duckdb
    import pandas as pd

    with tempfile.TemporaryDirectory() as folder, duckdb.connect() as connection:
        path = Path(folder, "rows.parquet")
        connection.from_df(pd.DataFrame.from_records(rows)).write_parquet(str(path))
        return path.read_bytes()
