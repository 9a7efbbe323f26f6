"""Values of a federation's card: each is read, or refused by its key."""

from __future__ import annotations

from pathlib import Path
from unicodedata import bidirectional, category

from fedsub_core.errors import DataError

#: What the file says of an overlap that nobody knows.
UNKNOWN = "unknown"
#: Marks that turn the direction in which the rest of a line is written.
_TURNS = ("LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI")


def refused(path: Path, key: str, got: object, expected: str) -> DataError:
    """Return the refusal of a key's value."""
    return DataError(f"{path}: {key}: got {got!r}, expected {expected}. Correct the value.")


def read_text(value: object, key: str, path: Path, may_be_empty: bool = False) -> str:
    """Return text that may be shown."""
    if not isinstance(value, str) or not (value.strip() or may_be_empty):
        raise refused(path, key, value, "text")
    return shown(value, key, path)


def read_names(value: object, key: str, least: int, path: Path) -> tuple[str, ...]:
    """Return names, at least so many, none of them twice."""
    if not isinstance(value, list) or not all(isinstance(v, str) and v.strip() for v in value):
        raise refused(path, key, value, "a list of names")
    if len(value) < least or len(set(value)) < len(value):
        raise refused(path, key, value, f"at least {least} names, none of them twice")
    return tuple(shown(name, key, path) for name in value)


def shown(text: str, key: str, path: Path) -> str:
    """Return a text that does nothing to a terminal, where it is shown, too."""
    if any(category(c) == "Cc" or bidirectional(c) in _TURNS for c in text):
        raise refused(path, key, text, "text without control characters")
    return text


def read_number(value: object, key: str, path: Path) -> float:
    """Return a number that a float holds."""
    # 1e300 bars NaN, infinity and integers that no float holds.
    if type(value) not in (int, float) or not abs(value) < 1e300:  # type: ignore[arg-type]
        raise refused(path, key, value, "a number")
    return float(value)  # type: ignore[arg-type]  # its type was compared above


def read_positive(value: object, key: str, path: Path) -> float | None:
    """Return a number above 0; None where nothing is said."""
    if value is not None and read_number(value, key, path) <= 0:
        raise refused(path, key, value, "a number above 0")
    return None if value is None else read_number(value, key, path)


def read_overlap(value: object, path: Path) -> float | None:
    """Return a share of the window; None of an overlap that nobody knows."""
    if value == UNKNOWN:
        return None
    if isinstance(value, str):
        raise refused(path, "overlap", value, f"a share of the window, or {UNKNOWN!r}")
    number = read_number(value, "overlap", path)
    if not 0 <= number < 1:
        raise refused(path, "overlap", value, "a share of the window from 0 to below 1")
    return number
