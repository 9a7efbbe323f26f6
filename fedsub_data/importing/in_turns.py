"""Tables in which devices take turns: rows of two recordings that were made at once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import pairwise

from fedsub_core.errors import DataError
from fedsub_core.spelling import spelt
from fedsub_data.importing.file_words import DEVICES, words

#: Words of a column's name that says which device a row is of, and words that may stand beside
#: them. With others, as in ``sensor_kitchen`` or ``sensor1``, it is one sensor's own column.
_NAMED = frozenset({"device", "sensor", "position", "placement", "bodypart", "limb", "side"})
_BESIDE = DEVICES | {
    "id", "name", "type", "model", "address", "mac", "serial", "number", "no", "nr", "code",
    "label", "location", "of", "on", "body", "part",
}  # fmt: skip
#: Shares of the first rows: so many follow one of another device, so many are of a second one.
_TURNS, _SECOND = 0.1, 0.1
#: So many devices at most.
_MOST = 20


def check_turns(
    columns: Mapping[str, Sequence[str | None]], people: Sequence[str | None], where: str
) -> None:
    """Refuse a signal's table in which devices take turns: a window would hold rows of several.

    Parameters
    ----------
    columns : the first rows' texts by column, of columns that nobody named.
    people : whose each row is.

    Raises
    ------
    DataError
        It names the column and two devices, and what to do.
    """
    for name, values in columns.items():
        said = set(words(name))
        if not said & (_NAMED | {"wrist"}) or said - _NAMED - _BESIDE:
            continue
        rows: dict[str | None, list[str | None]] = {}
        for person, value in zip(people, values, strict=True):
            rows.setdefault(person, []).append(value)
        turns = sum(a != b for own in rows.values() for a, b in pairwise(own))
        devices = Counter(value for value in values if value is not None).most_common()
        if not 2 <= len(devices) <= _MOST or turns < _TURNS * len(values):
            continue
        if devices[1][1] >= _SECOND * len(values):
            raise DataError(
                f"{where}: column {name!r}: got rows of {devices[0][0]!r} and {devices[1][0]!r} in "
                "turns, expected a recording of one device at a time. Write a file for each "
                "device, with the person in its name or in a column: recordings of one time stay "
                "together. If these are no devices, name the features: "
                f"{spelt('features', 'A,B,C')}"
            )
