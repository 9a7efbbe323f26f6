"""Small tables of raw signals, as people have them."""

from collections.abc import Sequence
from pathlib import Path

import duckdb
import numpy as np

from fedsub_data.importing.importing import import_files
from fedsub_data.importing.options import ImportOptions
from fedsub_data.importing.samples import Imported


def lines(
    people: Sequence[str] = ("01", "02", "03"), rows: int = 120, rate: float = 10.0
) -> list[str]:
    """Lines of a table: each person walks in the first half and sits in the second."""
    made = ["user,activity,time,ax,ay"]
    for number, person in enumerate(people):
        for i in range(rows):
            state = "walk" if i < rows // 2 else "sit"
            x = 1 + number / 10 + np.sin(i)
            made.append(f"{person},{state},{i / rate:.3f},{x:.4f},{-x:.4f}")
    return made


def written(path: Path, text: Sequence[str], encoding: str = "utf-8") -> Path:
    """Write lines to a file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(text) + "\n", encoding)
    return path


def as_parquet(path: Path) -> Path:
    """Write a table of text as Parquet, in a folder beside it; types are by their values."""
    folder = path.parent / f"{path.stem}-parquet"
    folder.mkdir(exist_ok=True)
    duckdb.sql(f"COPY (SELECT * FROM '{path}') TO '{folder / path.stem}.parquet'")
    return folder


def imported(path: Path | str, out: Path, **given: object) -> Imported:
    """Import a file with windows of 2 s that do not overlap, unless told otherwise."""
    options = ImportOptions(**({"window": "2s", "overlap": 0.0} | given))  # type: ignore[arg-type]
    return import_files([str(path)], out, options, lambda done, of: None)
