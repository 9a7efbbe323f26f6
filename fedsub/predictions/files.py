"""Rows of a table as a file: CSV, or Parquet by DuckDB."""

import csv
import io
import tempfile
from collections.abc import Iterable, Iterator
from functools import partial
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
#: Bytes that are copied at a time.
_BLOCK = 2**20
_WHOSE = ("person", "method", "seed", "round")


def write_rows(path: Path, rows: Iterable[Row]) -> None:
    """Write rows with the same columns into a file that ends in .csv or .parquet, whole.

    Rows are written as they come, so there may be more than memory holds.

    Raises ConfigError if it is Parquet, and DuckDB is not installed. Raises RunError if there is no
    row, rows differ in their columns, or the file cannot be written.
    """
    make_folder(path.parent)
    if path.suffix != ".parquet":
        write_whole(path, _csv(path, rows))
        return
    require("Parquet files", "duckdb")
    with tempfile.TemporaryDirectory(prefix="fedsub-rows-") as folder:
        texts, made = Path(folder, "rows.csv"), Path(folder, "rows.parquet")
        write_whole(texts, _csv(path, rows))
        _to_parquet(texts, made)
        with made.open("rb") as file:
            write_whole(path, iter(partial(file.read, _BLOCK), b""))


def read_predictions(path: Path) -> list[Predicted]:
    """Return the predictions of a CSV file, as they were written.

    Raises RunError if a row is not one of a prediction; it is named.
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


def _csv(path: Path, rows: Iterable[Row]) -> Iterator[bytes]:
    """Yield the lines of a table."""
    text, names = io.StringIO(newline=""), list[str]()
    writer = csv.writer(text, lineterminator="\n")
    for row in rows:
        if not names:
            names = list(row)
            writer.writerow(names)
        elif names != list(row):
            raise RunError(
                f"{path}: got rows with {', '.join(row)}, expected {', '.join(names)}, as the "
                "first: runs of other classes do not go into one file"
            )
        writer.writerow(row.values())
        yield text.getvalue().encode()
        text.seek(0)
        text.truncate()
    if not names:
        raise RunError(f"{path}: got no row, expected one at least")


def _to_parquet(texts: Path, made: Path) -> None:
    """Write a CSV file's rows as Parquet; what names somebody or something stays text."""
    import duckdb

    with texts.open(encoding="utf-8") as file:
        names = next(csv.reader(file))
    numbers = {"seed", "round", "index"}
    kinds = {
        name: "BIGINT" if name in numbers else "DOUBLE" if _measured(name) else "VARCHAR"
        for name in names
    }
    with duckdb.connect() as connection:
        connection.read_csv(str(texts), header=True, dtype=kinds).write_parquet(str(made))


def _measured(name: str) -> bool:
    return name in ("t", "value") or name.startswith(PROBABILITY)
