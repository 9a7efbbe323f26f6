"""How an option is named in errors and notes: as the front spells it that people use."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

SINGLE, DOUBLE = "'", '"'


def command_line(key: str, value: str) -> str:
    """Return an option with its value, ``--time-unit ms``."""
    return f"--{key} {value}".rstrip()


def toml(key: str, value: str) -> str:
    """Return a key with its value, ``time-unit = "ms"``."""
    return f"{key} = {_literal(value, DOUBLE)}" if value else key


def python(key: str, value: str) -> str:
    """Return an argument with its value, ``time_unit='ms'``."""
    value = "True" if key == "force" else value
    return f"{key.replace('-', '_')}={_literal(value, SINGLE)}"


def _literal(value: str, mark: str) -> str:
    """Return a text in quotation marks; numbers and words for a value, as COLUMN, as they are."""
    plain = (
        not value or value[0] in SINGLE + DOUBLE or value in ("True", "False") or value.isupper()
    )
    return value if plain or value.replace(".", "").isdigit() else f"{mark}{value}{mark}"


Spelling = Callable[[str, str], str]
_front: ContextVar[Spelling] = ContextVar("front", default=command_line)


def spelt(key: str, value: object = "") -> str:
    """Return an option, and a value of it, as the front in use spells them."""
    return _front.get()(key, str(value))


@contextmanager
def spelling(front: Spelling) -> Iterator[None]:
    """Let texts that are made in the ``with`` block, or the decorated function, name options so."""
    before = _front.set(front)
    try:
        yield
    finally:
        _front.reset(before)
