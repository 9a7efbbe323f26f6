"""Parts of a split that data say themselves: a column of an import, or a table of samples."""

import csv
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedsub_core.data.client_data import PARTS
from fedsub_core.data.federation import Federation
from fedsub_core.errors import DataError, listed
from fedsub_core.options import suggestion
from fedsub_data.importing.database import Database

Numbers = NDArray[np.int64]
#: Words for each of :data:`~fedsub_core.data.client_data.PARTS`, in small letters.
_WORDS = {
    "training": ("training", "train"),
    "test": ("test", "testing"),
    "validation": ("validation", "valid", "val"),
    "unused": ("unused", "none", ""),
}
#: Stands between the part and the recording of a row, of which both make one recording.
BETWEEN = "\x1f"
_NONE = PARTS.index("unused")
_COLUMNS = ("person", "index", "part")


def part_number(word: str, where: str) -> int:
    """Return a word's place in :data:`~fedsub_core.data.client_data.PARTS`; raises DataError."""
    plain = word.strip().lower()
    for place, name in enumerate(PARTS):
        if plain in _WORDS[name]:
            return place
    raise DataError(
        f"{where}: got {word!r}, expected train, validation, test, or an empty cell for none."
        f"{suggestion(plain, [w for words in _WORDS.values() for w in words])}"
    )


def code_recordings(db: Database, part: str | None) -> tuple[int, Numbers | None]:
    """Return the number of codes of a database's recordings, which it makes, and their parts.

    The last code is of rows that name no recording. Parts are None where no column says them.

    Raises DataError if a part is none, or all rows are of one.
    """
    db.run(
        "CREATE TABLE recordings AS SELECT recording, row_number() OVER (ORDER BY first) - 1 "
        "AS code FROM (SELECT recording, min(rowid) AS first FROM rows "
        "WHERE recording IS NOT NULL GROUP BY recording)"
    )
    names = [
        text for (text,) in db.run("SELECT recording FROM recordings ORDER BY code").fetchall()
    ]
    if part is None:
        return len(names) + 1, None
    words = [name.partition(BETWEEN)[0] for name in names]
    found = np.array([*(part_number(word, f"part: column {part!r}") for word in words), _NONE])
    _check_both(found, f"part: column {part!r}", words)
    return len(names) + 1, found.astype(np.int64)


def parts_of(source: Any, file: Numbers) -> Numbers | None:
    """Return the part of each row or window by its `file`, int64 [n]; None where none is said."""
    known: Numbers | None = getattr(source, "part_of", None)
    return None if known is None else known[file % len(known)]


def with_parts(federation: Federation, table: Path) -> Federation:
    """Return a federation whose samples have the parts of a CSV file.

    The file has the columns ``person``, ``index`` of the sample in the person's file, from 0, and
    ``part``, as ``splits.csv`` of ``fedsub predictions`` does. Samples that it does not name are in
    no part.

    Raises DataError if a row is none, or names a person or sample that is not there or was named
    before; if a person has no training or no test sample.
    """
    clients = federation.clients
    parts = {name: np.full(len(data.y), _NONE, np.int64) for name, data in clients.items()}
    seen = defaultdict[str, set[int]](set)
    with table.open(newline="", encoding="utf-8-sig") as file:
        reader = csv.DictReader(file)
        if lacking := [name for name in _COLUMNS if name not in (reader.fieldnames or ())]:
            raise DataError(
                f"{table}: got columns {', '.join(reader.fieldnames or ())}, expected "
                f"{', '.join(_COLUMNS)}; {lacking[0]} is not there"
            )
        for row in reader:
            where, person = f"{table}, line {reader.line_num}", row["person"]
            if person not in parts:
                near = suggestion(str(person), parts)
                raise DataError(
                    f"{where}: person: got {person!r}, expected one of {listed(parts, 10)}.{near}"
                )
            text, samples = (row["index"] or "").strip(), len(parts[person])
            index = int(text) if text.isascii() and text.isdigit() else -1
            if not 0 <= index < samples or index in seen[person]:
                twice = " once" * (index in seen[person])
                raise DataError(
                    f"{where}: index of client {person!r}: got {text!r}, expected 0 to "
                    f"{samples - 1}{twice}"
                )
            seen[person].add(index)
            parts[person][index] = part_number(row["part"] or "", where)
    for name, own in parts.items():
        _check_both(own, f"{table}: client {name!r}", [PARTS[place] for place in own])
    divided = {name: replace(data, parts=parts[name]) for name, data in clients.items()}
    return replace(federation, clients=divided)


def _check_both(found: Numbers, where: str, words: Sequence[str]) -> None:
    if not {PARTS.index("training"), PARTS.index("test")} <= set(found.tolist()):
        raise DataError(
            f"{where}: got {listed(map(repr, dict.fromkeys(words)), 5)} alone, expected training "
            "and test samples"
        )
