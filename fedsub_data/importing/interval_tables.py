"""Tables of intervals as text: CSV with or without names of columns, and JSON."""

import csv
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from fedsub_core.errors import DataError, cut
from fedsub_core.spelling import spelt
from fedsub_data.importing.encodings import begin, decoded
from fedsub_data.importing.options import ImportOptions
from fedsub_data.importing.roles import is_number

#: Larger files are no lists of intervals.
_MOST_BYTES = 1 << 26
#: Columns of files without names, by their number.
_BARE = {1: ["time"], 2: ["time", "label"], 3: ["start", "end", "label"]}
#: Keys under which a JSON object holds its list.
_LISTS = ("intervals", "annotations", "labels", "events", "segments")
#: A time of day, which counts from the recording's start: 00:01:02.5.
CLOCK = re.compile(r"(\d+):([0-5]?\d):([0-5]?\d(?:[.,]\d+)?)")
_DATE = re.compile(r"\d{1,4}[-./]\d{1,2}[-./]\d")


@dataclass(frozen=True)
class IntervalTable:
    """A table of text.

    Parameters
    ----------
    columns : texts by name; "" is no value.
    where : the place of each row, in words.
    """

    columns: Mapping[str, Sequence[str]]
    where: Sequence[str]


def kind_of_time(text: str) -> str:
    """Return "number", "time of day" or "date"; "" for any other text."""
    if is_number(text):
        return "number"
    if CLOCK.fullmatch(text):
        return "time of day"
    return "date" if _DATE.match(text) else ""


def read_interval_table(path: Path, options: ImportOptions) -> IntervalTable:
    """Return the table of a file, without rows where the file is empty.

    Raises DataError where it is too large, cannot be decoded, or its lines differ in their columns.
    """
    size = path.stat().st_size
    if size > _MOST_BYTES:
        raise DataError(
            f"{path}: got {size:,} bytes, expected intervals, {_MOST_BYTES:,} bytes at most. Check "
            f"{spelt('intervals')}"
        )
    if not size:  # nobody pressed the button
        return IntervalTable({}, ())
    encoding = begin(path, options)[2]
    try:
        with decoded(path, encoding, "strict") as file:
            text = file.read(_MOST_BYTES)
    except UnicodeDecodeError as error:
        raise DataError(
            f"{path}: got bytes that are no {encoding}. Say how it is written: {spelt('encoding')}"
        ) from error
    return _of_json(path, text) if path.suffix.lower() == ".json" else _of_csv(path, text)


def _of_csv(path: Path, text: str) -> IntervalTable:
    """Return the table of a text, whose first line may hold the names of columns."""
    lines = [(n, line) for n, line in enumerate(text.splitlines(), start=1) if line.strip()]
    if not lines:
        return IntervalTable({}, ())
    mark = max("\t;,", key=lines[0][1].count)
    rows = [[c.strip() for c in next(csv.reader([line], delimiter=mark))] for _, line in lines]
    names, first = rows[0], 1
    if kind_of_time(names[0]):
        if len(names) not in _BARE:
            raise DataError(
                f"{path}: got {len(names)} columns without names, expected start, end and label. "
                "Write their names into the first line"
            )
        names, first = _BARE[len(names)], 0
    if twice := [name for name in names if names.count(name) > 1]:
        raise DataError(f"{path}: got column {twice[0]!r} twice, expected each name once")
    for (number, line), row in zip(lines, rows, strict=True):
        if len(row) != len(names):
            raise DataError(
                f"{path}, line {number}: got {len(row)} columns ({cut(line)!r}), expected "
                f"{len(names)}: {', '.join(names)}"
            )
    columns = {name: [row[i] for row in rows[first:]] for i, name in enumerate(names)}
    return IntervalTable(columns, [f"{path}, line {number}" for number, _ in lines[first:]])


def _of_json(path: Path, text: str) -> IntervalTable:
    """Return the table of a JSON list of objects, or of such lists by recording or person."""
    try:
        read = json.loads(text or "[]")
    except (ValueError, RecursionError) as error:
        raise DataError(f"{path}: got no JSON ({cut(error)}), expected a list") from error
    lists = read if isinstance(read, dict) else {"": read}
    if key := next((key for key in _LISTS if key in lists), None):
        lists = {"": lists[key]}
    entries: list[tuple[str, dict[str, object]]] = []
    for owner, own in lists.items():
        for number, entry in enumerate(own if isinstance(own, list) else [None], start=1):
            where = f"{path}, {f'{owner!r}, ' if owner else ''}entry {number}"
            if not isinstance(entry, dict):
                raise DataError(
                    f"{where}: got {cut(json.dumps(own))}, expected objects such as "
                    '{"start": 0, "end": 12.5, "label": "walk"} in a list'
                )
            entries.append((where, ({"recording": owner} if owner else {}) | entry))
    names = dict.fromkeys(name for _, entry in entries for name in entry)
    columns = {name: [_cell(entry.get(name)) for _, entry in entries] for name in names}
    return IntervalTable(columns, [where for where, _ in entries])


def _cell(value: object) -> str:
    return "" if value is None else str(value).strip()
