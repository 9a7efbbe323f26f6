"""What the scripts of this folder share: real data, arguments, files of results."""

import argparse
import csv
import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

#: The folder of real federations.
REAL = os.environ.get("FEDSUB_DATA", "../shared/data")


@dataclass(frozen=True)
class Known:
    """An option that takes some names of a table, by default all."""

    names: Iterable[str]
    default: Sequence[str] = ()


def read_arguments(tiny: Sequence[str], **options: object) -> argparse.Namespace:
    """Return a script's arguments; ``--tiny`` stands for `tiny`, before all others.

    Parameters
    ----------
    options : the default of each, or a type where there is none; or a pair of that and a help text.
        Of a list, several are taken. ``csv`` and ``out`` are where results are written.
    """
    parser = argparse.ArgumentParser(description=sys.modules["__main__"].__doc__)
    parser.add_argument("--tiny", action="store_true", help=" ".join(tiny))
    for name, option in options.items():
        value, text = option if isinstance(option, tuple) else (option, "")
        settings: dict[str, Any] = {"help": f"{text} (default: %(default)s)".strip()}
        if isinstance(value, Known):
            settings["choices"] = list(value.names)
            value = list(value.default or value.names)
        several = value if isinstance(value, list) else [value]
        types = {one if isinstance(one, type) else type(one) for one in several}
        if value is False:
            settings["action"] = "store_true"
        else:
            settings["type"] = max(types or {str}, key=lambda one: one is float)
            settings["nargs"] = "*" if isinstance(value, list) else None
            settings["default"] = None if types and isinstance(several[0], type) else value
        parser.add_argument("--" + name.replace("_", "-"), **settings)
    given = parser.parse_args()
    return parser.parse_args([*tiny, *sys.argv[1:]]) if given.tiny else given


def today() -> str:
    """Return the date that results are written with (UTC)."""
    return datetime.now(UTC).date().isoformat()


def add_rows(path: Path | None, head: Sequence[object], rows: Iterable[Sequence[object]]) -> None:
    """Add rows to a CSV file, if one is named; it begins with its head."""
    if path is None:
        return
    new = not path.exists()
    with path.open("a", newline="", encoding="utf-8") as file:
        csv.writer(file, lineterminator="\n").writerows([*([head] if new else []), *rows])


def rows_in(path: Path | None, key: Sequence[str]) -> dict[tuple[str, ...], dict[str, str]]:
    """Return the rows of a CSV file by their `key` columns; none where there is no file."""
    if path is None or not path.exists():
        return {}
    with path.open(newline="", encoding="utf-8") as file:
        return {tuple(row.get(name, "") for name in key): row for row in csv.DictReader(file)}


def put_lines(
    path: Path | None, head: Sequence[str], lines: Iterable[Sequence[object]], keys: int
) -> None:
    """Put lines into a CSV file, as rows whose first `keys` columns say which they are."""
    put_rows(path, [dict(zip(head, line, strict=True)) for line in lines], head[:keys])


def put_rows(
    path: Path | None,
    rows: Sequence[Mapping[str, object]],
    key: Sequence[str],
    order: Iterable[tuple[str, ...]] | None = None,
) -> None:
    """Put rows into a CSV file, if one is named, each in place of one with the same `key` columns.

    A last column has today's date. All other rows stay. `order` are the keys of all rows that there
    can be, in the file's order; None: new rows come last.
    """
    if path is None:
        return
    rows = [{**row, "written": row.get("written", today())} for row in rows]
    kept = dict[tuple[object, ...], Mapping[str, object]](rows_in(path, key).items())
    kept |= {tuple(row[name] for name in key): row for row in rows}
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(kept[one] for one in (kept if order is None else order) if one in kept)
