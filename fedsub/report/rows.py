"""A table of a page: rows of text, and how numbers are written in it."""

from collections.abc import Sequence
from dataclasses import dataclass

#: Stands where there is nothing.
NONE = "–"


@dataclass(frozen=True)
class Rows:
    """A table to read: what it is, its head, its rows, and which columns are words."""

    caption: str
    head: Sequence[str]
    rows: Sequence[Sequence[str]]
    words: Sequence[int] = ()


def milliseconds(taken: float | None) -> str:
    """Return a time in ms, with one digit, a dash for none."""
    return NONE if taken is None else f"{taken:,.1f}"


def memory(most: float | None) -> str:
    """Return memory in MB, a dash for none."""
    return NONE if most is None else f"{most / 1e6:,.0f} MB"


def number(value: float | None) -> str:
    """Return a number with three digits, a dash for none, ``nan`` for one that is none."""
    return NONE if value is None else f"{value:.3f}"
