"""Named parts with arguments, as options give them: ``focal(gamma=2)``, ``my.py:f``, with commas.

A loss, an optimiser, a schedule and an augmentation are all written so.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache, partial
from inspect import Parameter, signature
from typing import Any

from fedsub_core.errors import ConfigError
from fedsub_core.models.names import is_place
from fedsub_core.options import nearest

_ONE = re.compile(r"\s*([^\s(),]+)\s*(?:\(((?:[^()]|\([^()]*\))*)\))?\s*")
_KEYWORDS = {"true": True, "false": False}


@dataclass(frozen=True)
class Part:
    """A name, and the arguments that stand behind it.

    Parameters
    ----------
    values : without a name, in their order.
    """

    name: str
    values: tuple[Any, ...]
    named: tuple[tuple[str, Any], ...]

    @property
    def plain(self) -> bool:
        """Whether it has no arguments."""
        return not (self.values or self.named)

    def bound(
        self, function: Callable[..., Any], option: str, taken: int = 0, given: tuple[str, ...] = ()
    ) -> Callable[..., Any]:
        """Return `function` with the part's arguments.

        Parameters
        ----------
        option : that names the part, for messages.
        taken : how many of the function's first parameters are not the part's.
        given : names of further parameters that are not the part's.

        Raises ConfigError if the function has no such parameter, or lacks one; the nearest name is
        suggested.
        """
        arguments = self.arguments(function, option, taken, given)
        return partial(function, **arguments) if arguments else function

    def arguments(
        self, function: Callable[..., Any], option: str, taken: int = 0, given: tuple[str, ...] = ()
    ) -> dict[str, Any]:
        """Return the part's arguments by the names of the function's parameters; see `bound`."""
        known = list(signature(function).parameters.values())[taken:]
        free = any(one.kind is Parameter.VAR_KEYWORD for one in known)
        own = {
            one.name: one
            for one in known
            if one.kind in (Parameter.POSITIONAL_OR_KEYWORD, Parameter.KEYWORD_ONLY)
            and one.name not in given
        }
        if len(self.values) > len(own):
            raise ConfigError(
                f"{option}: {self.name}: got {len(self.values)} arguments, expected at most "
                f"{len(own)}: {', '.join(own) or 'none'}"
            )
        found = dict(zip(own, self.values, strict=False))
        for name, value in self.named:
            if name in found or not (free or name in own):
                hint = " It was given twice." if name in found else nearest(name, own, "Known")
                raise ConfigError(f"{option}: {self.name}: unknown argument {name!r}.{hint}")
            found[name] = value
        if lacking := [
            n for n, p in own.items() if p.default is Parameter.empty and n not in found
        ]:
            raise ConfigError(
                f"{option}: {self.name}: got no {', '.join(lacking)}, expected it, such as "
                f"{self.name}({lacking[0]}=...)"
            )
        return found


@cache
def parts(text: str, option: str) -> tuple[Part, ...]:
    """Return the parts of an option's text, in their order; "" has none.

    Raises ConfigError if the text is not one of names with arguments.
    """
    found, end = [], 0
    while end < len(text):
        one = _ONE.match(text, end)
        if one is None or not (one.end() == len(text) or text[one.end()] == ","):
            raise _unreadable(text, option)
        found.append(Part(one[1], *_arguments(one[2] or "", text, option)))
        end = one.end() + 1
    return tuple(found)


def only(text: str, option: str) -> Part:
    """Return the one part of an option's text; raises ConfigError as :func:`parts`, and of more."""
    found = parts(text, option)
    if len(found) != 1:
        raise _unreadable(text, option, "one name")
    return found[0]


def places(text: str, option: str) -> tuple[str, ...]:
    """Return the places of code that an option's text names, ``my.py:f``."""
    return tuple(part.name for part in parts(text, option) if is_place(part.name))


def part_of(part: Part, known: Mapping[str, Callable[..., Any]], option: str) -> Callable[..., Any]:
    """Return the known function that a part names; raises ConfigError with the nearest name."""
    if part.name not in known:
        raise ConfigError(f"{option}: unknown {part.name!r}.{nearest(part.name, known, 'Known')}")
    return known[part.name]


def _arguments(
    text: str, whole: str, option: str
) -> tuple[tuple[Any, ...], tuple[tuple[str, Any], ...]]:
    try:
        call = ast.parse(f"f({text})", mode="eval").body
        if not isinstance(call, ast.Call) or any(one.arg is None for one in call.keywords):
            raise ValueError
        named = tuple((str(one.arg), _value(one.value)) for one in call.keywords)
        return tuple(map(_value, call.args)), named
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise _unreadable(whole, option) from error


def _value(node: ast.expr) -> Any:
    """Return a number, text, truth value or tuple of these; a bare word is text."""
    if isinstance(node, ast.Name):
        return _KEYWORDS.get(node.id, node.id)
    return ast.literal_eval(node)


def _unreadable(text: str, option: str, what: str = "names with commas") -> ConfigError:
    return ConfigError(
        f"{option}: got {text!r}, expected {what}, each with its arguments, such as "
        "name(key=0.5, other=2)"
    )
