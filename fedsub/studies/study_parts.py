"""The parts of a study's file: the tables of its runs, its rows and what papers printed."""

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any

from fedsub.studies.measures import check_measure
from fedsub.studies.study import INDIFFERENT, Cell, Entry, Printed, name_of
from fedsub_core.config.toml import flatten
from fedsub_core.data.sources import WATCH, absolute_source
from fedsub_core.errors import ConfigError
from fedsub_server.twins import LOCAL

#: Keys of a run that a study says elsewhere.
DECIDED = {"method": "[methods]", "beside": "[methods]", "seed": "seeds"}
_LABEL = re.compile(r"[A-Za-z0-9][A-Za-z0-9 .:+-]{0,39}")


def read_entries(path: Path, table: Mapping[str, Any]) -> Iterator[Entry]:
    """Yield the rows of [methods]."""
    if not table:
        raise ConfigError(
            f"{path}: methods: got none, expected at least one, such as [methods.local]"
        )
    for label, given in table.items():
        if not _LABEL.fullmatch(label) or not isinstance(given, dict):
            raise ConfigError(
                f"{path}: methods: got {label!r}, expected a table of a name of letters, digits, "
                "blanks and . : + -"
            )
        hyper = dict(given)
        if lists := [key for key, value in hyper.items() if isinstance(value, list)]:
            raise ConfigError(
                f"{path}: methods: {label}: {lists[0]}: got {hyper[lists[0]]!r}, expected one "
                "value. Give each a row of its own, or the list under [tune], which chooses one"
            )
        method = str(hyper.pop("method", label))
        if (method == LOCAL) != (label == LOCAL):
            raise ConfigError(
                f"{path}: methods: got {label!r} for the method {method}; expected that `local`, "
                "which all gains are counted against, is called so, and nothing else is"
            )
        yield Entry(label, method, hyper)


def read_cells(path: Path, given: Any, places: Sequence[Path]) -> tuple[Cell, ...]:
    """Return all combinations of a table of lists, the first key slowest; or of each of several."""
    several = isinstance(given, list)
    if several and not given:
        raise ConfigError(f"{path}: vary: got {given!r}, expected a table, or several: [[vary]]")
    found: list[Cell] = []
    for table in given if several else [given]:
        lists = {}
        for key, values in run_keys(path, "vary", table):
            if several and not isinstance(values, list):
                values = [values]
            listed = listed_values(path, "vary", key, values)
            lists[key] = [place_of(key, value, places) for value in listed]
        found += [tuple(zip(lists, one, strict=True)) for one in product(*lists.values())]
    if twice := next((cell for cell in found if found.count(cell) > 1), None):
        raise ConfigError(f"{path}: vary: got {name_of(twice)} twice, expected each table once")
    return tuple(found)


def run_keys(path: Path, name: str, table: Any) -> Iterator[tuple[str, Any]]:
    """Yield flat keys and values of a table that sets keys of a run; `name` says which it is."""
    if not isinstance(table, dict):
        raise ConfigError(f"{path}: {name}: got {table!r}, expected a table")
    for key in INDIFFERENT & table.keys() if name == "vary" else ():
        raise ConfigError(f"{path}: vary: {key}: expected it in [run]: no number depends on it")
    for key in DECIDED.keys() & table.keys():
        got, place = table[key], DECIDED[key]
        raise ConfigError(f"{path}: {name}: {key}: got {got!r}, expected it among {place}")
    for key, value in flatten(table):
        if name == "run" and isinstance(value, list):
            raise ConfigError(
                f"{path}: run: {key}: got {value!r}, expected one value. Give the list under "
                "[[vary]], which makes a table for each of its values, or under [tune], which "
                "chooses one"
            )
        yield key, value


def listed_values(path: Path, table: str, key: str, values: Any) -> list[Any]:
    """Return a list of values, or refuse what is none or holds one twice."""
    if not isinstance(values, list) or not values or len(set(map(repr, values))) < len(values):
        raise ConfigError(
            f"{path}: {table}: {key}: got {values!r}, expected a list of values, each once"
        )
    return values


def place_of(key: str, value: Any, places: Sequence[Path]) -> Any:
    """Return a federation's folder as found in one of `places`; other values as they are."""
    if key != "data" or not isinstance(value, str) or value == WATCH:
        return value
    near = (str((place / value).resolve()) for place in places if (place / value).is_dir())
    return next(near, absolute_source(value))


def paper_tables(path: Path, given: Any) -> list[Mapping[str, Any]]:
    """Return the tables [[paper]], unread."""
    if not isinstance(given, list) or not all(isinstance(one, dict) for one in given):
        raise ConfigError(f"{path}: paper: got {given!r}, expected tables, each [[paper]]")
    return given


def read_printed(path: Path, given: Mapping[str, Any], entries: Sequence[Entry]) -> Printed:
    """Return the numbers of a table [[paper]]."""
    labels = {entry.label for entry in entries}
    numbers = {key: value for key, value in given.items() if key not in ("source", "where")}
    for name, values in numbers.items():
        check_measure(path, name)
        if not isinstance(values, dict) or not all(
            label in labels and type(value) in (int, float) for label, value in values.items()
        ):
            raise ConfigError(
                f"{path}: paper: {name}: got {values!r}, expected numbers by name of [methods]"
            )
    if not numbers or not isinstance(given.get("source"), str):
        raise ConfigError(
            f"{path}: paper: got {dict(given)!r}, expected a source and numbers, such as "
            'source = "Fig. 4", macro-f1 = { fedavg = 0.5 }'
        )
    return Printed(given["source"], dict(flatten(given.get("where", {}))), numbers)
