"""TOML tables as frozen dataclasses: every key known, none missing, every value of its type."""

from __future__ import annotations

from dataclasses import MISSING, fields, is_dataclass
from pathlib import Path
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

from fedsub_core.errors import DataError
from fedsub_core.options import suggestion

T = TypeVar("T")
_WORDS = {str: "text", int: "a whole number", float: "a number", bool: "true or false"}


def strict(kind: type[T], table: object, path: Path, where: str = "") -> T:
    """Return a TOML table as the dataclass `kind`, whose fields are the table's keys.

    A field is text, a whole number, a number, true or false, a tuple of texts, another such
    dataclass (an inner table) or a tuple of them (an array of tables). With a default it may be
    left out; a default of None stands for "not known".

    Parameters
    ----------
    path, where : the file, and the inner table's place in it such as ``"source."``.

    Raises
    ------
    DataError
        At an unknown or missing key or a value of another type: names the file and the key.
    """
    if not isinstance(table, dict):
        raise refused_key(path, where.rstrip("."), table, "a table")
    hints = get_type_hints(kind)
    known = {f.name: f for f in fields(kind)}  # type: ignore[arg-type]  # a dataclass by contract
    for key in table:
        if key not in known:
            hint = suggestion(key, known) or " Remove it."
            raise DataError(f"{path}: unknown key '{where}{key}'; known are {_list(known)}.{hint}")
    for key, field in known.items():
        if key not in table and field.default is MISSING:
            raise DataError(f"{path}: key '{where}{key}' is missing. Add it.")
    return kind(**{k: _value(hints[k], v, path, where + k) for k, v in table.items()})


def refused_key(path: Path, key: str, got: object, expected: str) -> DataError:
    """Return the error for a key's value, with the file, what came and what was expected."""
    return DataError(f"{path}: {key}: got {got!r}, expected {expected}. Correct the value.")


def _value(hint: Any, value: object, path: Path, key: str) -> Any:
    options = [h for h in get_args(hint) if h is not type(None)]
    if get_origin(hint) is tuple:
        return _items(options[0], value, path, key)
    if get_origin(hint) is not None:  # X | None: a key of TOML is never None
        hint = options[0]
    if is_dataclass(hint):
        return strict(hint, value, path, f"{key}.")  # type: ignore[arg-type]
    if hint is float and type(value) is int:
        value = float(value)
    if type(value) is not hint or (hint is str and not str(value).strip()):
        raise refused_key(path, key, value, _WORDS[hint])
    return value


def _items(hint: Any, value: object, path: Path, key: str) -> tuple[Any, ...]:
    if not isinstance(value, list):
        raise refused_key(path, key, value, "a list")
    items = tuple(_value(hint, v, path, f"{key}[{i}]") for i, v in enumerate(value))
    if len(set(items)) < len(items):
        raise refused_key(path, key, value, "no entry twice")
    return items


def _list(names: dict[str, Any]) -> str:
    return ", ".join(names)
