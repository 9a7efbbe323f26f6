"""Typed options: dataclass fields that know their key, kind, range and one-line meaning.

The run's configuration and every method's hyperparameters are declared with these, so the TOML
reader, the command line and the list of methods share one description.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, TypeVar, get_type_hints

from fedsub_core.errors import ConfigError

T = TypeVar("T")
Value = str | int | float | bool
_KINDS = {str: "text", int: "a whole number", float: "a number", bool: "true or false"}
_INT64 = 2**63


def choice(*values: str, doc: str) -> Any:
    """Return a dataclass field whose value is one of `values`, the first by default."""
    return field(default=values[0], metadata={"choices": values, "doc": doc})


def option(
    default: Any,
    doc: str,
    minimum: float | None = None,
    maximum: float | None = None,
    above: float | None = None,
    below: float | None = None,
    pattern: str | None = None,
    like: str = "",
) -> Any:
    """Return a dataclass field with a default, a one-line meaning and an optional range.

    Parameters
    ----------
    minimum, maximum, above, below : float or None
        Bounds of a number; `above` and `below` are not themselves allowed.
    pattern : str or None
        Regular expression that a text must match as a whole.
    like : str
        What the pattern says, in words for people.
    """
    limits = {"minimum": minimum, "maximum": maximum, "above": above, "below": below}
    return field(default=default, metadata={"doc": doc, "pattern": pattern, "like": like, **limits})


def text_option(default: str, doc: str) -> Any:
    """Return a key whose value is a text that says something."""
    like = "one text, not empty, without blanks around it"
    return option(default, doc, pattern=r"\S(.*\S)?", like=like)


@dataclass(frozen=True)
class Option:
    """One option of a dataclass, as a person meets it: ``key`` is in kebab case."""

    key: str
    type: type[Any]
    default: Any
    choices: tuple[str, ...]
    doc: str
    minimum: float | None = None
    maximum: float | None = None
    above: float | None = None
    below: float | None = None
    pattern: str | None = None
    like: str | None = None

    @property
    def expected(self) -> str:
        """What a value must be, in words."""
        if self.choices:
            return "one of " + ", ".join(self.choices)
        words = ("of at least", "of at most", "above", "below")
        limits = (self.minimum, self.maximum, self.above, self.below)
        bounds = [f"{w} {v:g}" for w, v in zip(words, limits, strict=True) if v is not None]
        if self.pattern is not None:
            return str(self.like)
        return " ".join([_KINDS[self.type], " and ".join(bounds)]).strip()

    def check(self, value: object, where: str) -> Value:
        """Return `value` as this option's type, or raise a ConfigError that names `where`."""
        if self.type is float and type(value) is int and abs(value) < _INT64:
            value = float(value)
        if type(value) is not self.type or not self._allows(value):
            hint = suggestion(value, self.choices) if isinstance(value, str) else ""
            large = isinstance(value, int | float) and not abs(value) < _INT64
            size = " and of a size below 2**63" if large else ""
            raise ConfigError(
                f"{where}: {self.key}: got {value!r}, expected {self.expected}{size}.{hint} "
                f"The option {self.key} means: {self.doc}."
            )
        return value  # type: ignore[return-value]  # its type was compared above

    def parse(self, text: str, where: str) -> Value:
        """Return the text of a command line as this option's type, checked."""
        value: object = text
        try:
            if self.type is bool:
                value = {"true": True, "false": False}.get(text.strip().lower(), text)
            elif self.type is not str:
                value = self.type(text)
        except ValueError:
            value = text  # refused by check, which says what was expected
        return self.check(value, where)

    def _allows(self, value: Any) -> bool:
        if isinstance(value, str):
            fits = self.pattern is None or re.fullmatch(self.pattern, value) is not None
            return fits and (not self.choices or value in self.choices)
        return (
            abs(value) < _INT64  # neither NaN nor infinite, and what TOML and Flower can carry
            and (self.minimum is None or value >= self.minimum)
            and (self.maximum is None or value <= self.maximum)
            and (self.above is None or value > self.above)
            and (self.below is None or value < self.below)
        )


#: What was described. Types are told in text, and a study reads a thousand configurations.
_described: dict[type[Any], tuple[Option, ...]] = {}


def describe(options: type[Any]) -> tuple[Option, ...]:
    """Return the options of a dataclass in their order; fields without a meaning are none."""
    if options not in _described:
        hints = get_type_hints(options)
        names = ("minimum", "maximum", "above", "below", "pattern", "like")
        _described[options] = tuple(
            Option(
                f.name.replace("_", "-"),
                hints[f.name],
                f.default,
                f.metadata.get("choices", ()),
                f.metadata["doc"],
                **{name: f.metadata.get(name) for name in names},
            )
            for f in fields(options)
            if "doc" in f.metadata
        )
    return _described[options]


def option_values(options: object) -> dict[str, Value]:
    """Return the options of a dataclass instance by key."""
    return {o.key: getattr(options, o.key.replace("-", "_")) for o in describe(type(options))}


def read_options(options: type[T], texts: Mapping[str, str], where: str) -> T:
    """Return the dataclass `options` with the texts of a command line in its fields.

    Raises ConfigError where a key does not exist or a value is of the wrong kind; it names `where`.
    """
    known = {o.key: o for o in describe(options)}
    for key in texts:
        if key not in known:
            raise ConfigError(f"{where}: unknown key {key!r}.{nearest(key, known, 'Known keys')}")
    values = {key.replace("-", "_"): known[key].parse(text, where) for key, text in texts.items()}
    return options(**values)


def key_values(texts: Iterable[str], where: str, example: str) -> dict[str, str]:
    """Return the keys and values of texts ``KEY=VALUE``, such as `example`.

    Raises ConfigError where a text has no key; it names `where`.
    """
    pairs = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not equals or not key.strip():
            raise ConfigError(f"{where} {text}: expected KEY=VALUE, such as {example}")
        pairs[key.strip()] = value.strip()
    return pairs


def read_share(text: str) -> float | None:
    """Return a share in (0, 1] that is written as 0.25 or 1/4; None for any other text."""
    whole, slash, parts = text.partition("/")
    try:
        found = float(whole) / float(parts) if slash else float(text)
    except (ValueError, ZeroDivisionError):
        return None
    return found if 0 < found <= 1 else None


def suggestion(word: str, known: Iterable[str]) -> str:
    """Return " Did you mean ...?" with the nearest known word, or nothing."""
    near = difflib.get_close_matches(word, list(known), n=1)
    return f" Did you mean {near[0]!r}?" if near else ""


def nearest(word: str, known: Iterable[str], title: str) -> str:
    """Return " Did you mean ...?" with the nearest known word; where none is near, name all."""
    known = list(known)
    return suggestion(word, known) or f" {title}: {', '.join(known) or 'none'}."
