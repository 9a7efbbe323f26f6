"""What the scripts of this folder share: real data, arguments, files of results."""

from __future__ import annotations

import argparse
import csv
import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

#: The folder of real federations.
REAL = os.environ.get("FEDSUB_DATA", "../shared/data")


def parsed(parser: argparse.ArgumentParser, tiny: Sequence[str]) -> argparse.Namespace:
    """Return a script's arguments; ``--tiny`` stands for `tiny`, before all others."""
    parser.add_argument("--tiny", action="store_true", help=" ".join(tiny))
    given = parser.parse_args()
    return parser.parse_args([*tiny, *sys.argv[1:]]) if given.tiny else given


def today() -> str:
    """Return the date that results are written with (UTC)."""
    return datetime.now(UTC).date().isoformat()


def add_rows(path: Path, head: Sequence[object], rows: Iterable[Sequence[object]]) -> None:
    """Add rows to a CSV file, which begins with its head."""
    new = not path.exists()
    with path.open("a", newline="", encoding="utf-8") as file:
        csv.writer(file, lineterminator="\n").writerows([*([head] if new else []), *rows])


def put_rows(
    path: Path,
    rows: Sequence[Mapping[str, object]],
    key: Sequence[str],
    order: Iterable[tuple[str, ...]] | None = None,
) -> None:
    """Put rows into a CSV file, each in place of an older one with the same `key` columns.

    All other rows stay. `order` are the keys of all rows that there can be, in the file's order;
    None: new rows come last.
    """
    kept: dict[tuple[object, ...], Mapping[str, object]] = {}
    if path.exists():
        with path.open(newline="", encoding="utf-8") as file:
            kept = {tuple(row[name] for name in key): row for row in csv.DictReader(file)}
    kept |= {tuple(row[name] for name in key): row for row in rows}
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(kept[one] for one in (kept if order is None else order) if one in kept)
