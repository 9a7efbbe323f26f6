"""Rows of units below the names of columns: found, left out, and used where they are known."""

import csv
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from fedsub_core.errors import DataError
from fedsub_core.spelling import spelt
from fedsub_data.importing.behaviour import G
from fedsub_data.importing.roles import EMPTY, is_number

#: Rows of units at most.
_MOST = 2
#: Words that say no unit, but stand in rows of units.
_MARKS = {"", "-", "no_units", "no units", "unitless", "n.u.", "none", "cal", "raw", "uncal"}
#: Units, spelt plainly, by what is measured: each with its size.
_SIZES: Mapping[str, Mapping[str, float]] = {
    "acceleration": {"m/s^2": 1.0, "g": G, "mg": G / 1000},
    "rotation": {"rad/s": 1.0, "deg/s": float(np.pi / 180)},
    "angle": {"rad": 1.0, "deg": float(np.pi / 180)},
    "field": {"ut": 1.0, "gauss": 100.0, "mt": 1000.0, "nt": 1e-3},
    "pressure": {"pa": 1.0, "hpa": 100.0, "mbar": 100.0, "kpa": 1000.0},
    "time": {"s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9},
    "voltage": {"v": 1.0, "mv": 1e-3, "uv": 1e-6},
}
_OTHERS = {
    "s", "ms", "us", "ns", "min", "sec", "seconds", "milliseconds", "unixtime", "hz", "bpm",
    "1/min", "degc", "%", "db", "lx", "lux", "m", "cm", "km/h", "kohm", "kohms", "ohm",
    "local_flux", "ma", "steps", "kg", "yyyy/mm/dd hh:mm:ss.000", "hh:mm:ss",
}  # fmt: skip
_KNOWN = {unit for sizes in _SIZES.values() for unit in sizes} | _OTHERS
#: Other spellings, of which plain ones are made.
_SPELT = (
    ("[µμ]", "u"), ("°", "deg"), ("²", "^2"), (r"[\[\]() ]", ""), (r"\*\*", "^"),
    ("m/s/s|m/s2|m/sec^2|ms\\^-2|m\\*s\\^-2|mps2", "m/s^2"), ("^(dps|degrees/s|deg/sec)$", "deg/s"),
    ("^(degrees|degree)$", "deg"), ("^(celsius|degc)$", "degc"), ("^microtesla$", "ut"),
)  # fmt: skip


def plain_unit(text: str) -> str:
    """Return a unit in its plain spelling, such as ``m/s^2`` for ``m/(s^2)``."""
    unit = text.strip().lower()
    for pattern, new in _SPELT:
        unit = re.sub(pattern, new, unit)
    return unit


def unit_factors(
    own: Mapping[str, str], first: Mapping[str, str], names: Sequence[str], where: str, other: str
) -> dict[str, float]:
    """Return the factors of columns whose units in one file differ from those in the first one.

    Parameters
    ----------
    own, first : units by column.
    names : of columns that are used.
    where, other : the two files, for messages.

    Raises DataError where no factor between two units is known.
    """
    found = {}
    for name in names:
        one, two = own.get(name), first.get(name)
        if one is None or two is None or plain_unit(one) == plain_unit(two):
            continue
        times = factor(one, two)
        if times is None:
            raise DataError(
                f"{where}: column {name!r}: got unit {one!r}, expected {two!r} as in {other}. "
                f"Convert it, or leave the column out of {spelt('features')}"
            )
        found[name] = times
    return found


def factor(unit: str, other: str) -> float | None:
    """Return the factor from one unit to another; None where they measure no one quantity."""
    one, two = plain_unit(unit), plain_unit(other)
    return next((s[one] / s[two] for s in _SIZES.values() if one in s and two in s), None)


@dataclass(frozen=True)
class UnitRows:
    """Rows of units below the names of columns.

    Parameters
    ----------
    names, units : of each column; "" is no unit.
    lines : how many stand before the first row, the names' own too.
    delimiter : of columns.
    """

    names: tuple[str, ...]
    units: tuple[str, ...]
    lines: int
    delimiter: str


def unit_rows(lines: Sequence[str], delimiter: str) -> UnitRows | None:
    """Return the rows of units below the names of columns, None where there are none.

    Their cells are no numbers where those of the next row are, and most of them are known units.

    Parameters
    ----------
    lines : the first ones of the file, from the names of columns on.
    delimiter : of columns; "" where it is not known.
    """
    mark = delimiter or max(",;\t", key=(lines[0] if lines else "").count)
    cells = [next(csv.reader([line], delimiter=mark), []) for line in lines[: _MOST + 2]]
    rows = [[cell.strip() for cell in row] for row in cells]
    first = next((i for i, row in enumerate(rows) if any(map(is_number, row))), 0)
    if first < 2 or len({len(row) for row in rows[: first + 1]}) > 1:
        return None
    names = rows[0]
    if len(names) < 2 or len(set(names)) < len(names) or not all(names[:-1]):
        return None
    units = [""] * len(names)
    for row in rows[1:first]:
        measured = [cell for cell, n in zip(row, rows[first], strict=True) if is_number(n)]
        known = [plain_unit(cell) in _KNOWN for cell in measured if cell.lower() not in _MARKS]
        marked = all(cell.lower() in _MARKS - EMPTY for cell in measured)
        if not marked and 2 * sum(known) <= len(known):
            return None
        for i, cell in enumerate(row):
            units[i] = units[i] if cell.lower() in _MARKS else cell
    own = tuple(name or f"column{i}" for i, name in enumerate(names))
    return UnitRows(own, tuple(units), first, mark)


def units_in_words(units: Mapping[str, str], features: Sequence[str]) -> str:
    """Return the units of features, "" where one of them is not known."""
    own = [units.get(name, "") for name in features]
    return ", ".join(dict.fromkeys(own)) if all(own) else ""
