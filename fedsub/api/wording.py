"""Errors as Python says them: the command line's ``--time-unit`` is ``time_unit=`` here."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

from fedsub_core.config.run_config import RunConfig
from fedsub_core.errors import FedSubError
from fedsub_core.options import describe
from fedsub_data.importing.options import ImportOptions

#: An option of the command line, and the word behind it, which may be its value.
_OPTION = re.compile(r"--(?P<key>[a-z][a-z0-9-]*)(?: (?P<word>[^\s;)]*[^\s;:.,)]))?")
#: Words that stand for a value, or are one: COLUMN, A,B,C, none, 50, 2.56s, ax,ay, file.py:Net.
_VALUE = re.compile(r"[A-Z][A-Z,]*|none|g|deg|rad|m/s\^2|[0-9.]+s?|[^\s,]+[,:][^\s]+")
#: Options of the commands whose work a function's argument of the same name does.
_ALIKE = ("force", "model")


@contextmanager
def in_python() -> Iterator[None]:
    """Let errors name the arguments of functions where they name the command line's options."""
    try:
        yield
    except FedSubError as error:
        error.args = tuple(python_words(one) if isinstance(one, str) else one for one in error.args)
        raise


def python_words(text: str) -> str:
    """Return a text with ``time_unit=`` for ``--time-unit``; of other commands' options as it is.

    >>> python_words("Say it with --rate, or take rows with --window none; --force replaces it")
    "Say it with rate=, or take rows with window='none'; force=True replaces it"
    """
    return _OPTION.sub(_argument, text)


def _argument(option: re.Match[str]) -> str:
    key, word = option["key"], option["word"]
    if key not in _choices():
        return option[0]
    name, rest = key.replace("-", "_"), "" if word is None else f" {word}"
    if key == "force":
        return f"{name}=True{rest}"
    if word is None or not (word in _choices()[key] or _VALUE.fullmatch(word)):
        return f"{name}={rest}"
    plain = word.isupper() or re.fullmatch(r"[0-9.]+", word)
    return f"{name}={word if plain else repr(word)}"


@cache
def _choices() -> dict[str, tuple[str, ...]]:
    """Return the values that a key takes by name, of all that functions take."""
    options = (*describe(ImportOptions), *describe(RunConfig))
    return {**{option.key: option.choices for option in options}, **dict.fromkeys(_ALIKE, ())}
