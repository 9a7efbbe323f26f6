"""Options of a command that are declared as fields of a dataclass (:mod:`fedsub_core.options`)."""

from collections.abc import Callable, Collection
from dataclasses import fields
from functools import wraps
from typing import Any

import click

from fedsub_core.options import Option, describe

#: What adds options to a command.
Command = Callable[[Callable[..., None]], Callable[..., None]]


#: Further names of options.
SHORT = {"from-run": ("--from",)}


def options_of(declared: type[Any], only: Collection[str] = ()) -> Command:
    """Return a decorator that adds one option per field of `declared` to a command.

    Parameters
    ----------
    only : keys of the options that are added; empty: all.
    """

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        for option in reversed(describe(declared)):
            if only and option.key not in only:
                continue
            names, values = (
                [*SHORT.get(option.key, ()), f"--{option.key}"],
                "|".join(option.choices),
            )
            kind, field = values or option.type.__name__.upper(), option.key.replace("-", "_")
            command = click.option(field, *names, help=help_text(option), metavar=kind)(command)
        return command

    return decorate


def with_options(name: str, value: type[Any], *options: Command) -> Command:
    """Return a decorator that adds options to a command, which gets them as one value.

    Parameters
    ----------
    name : the command's parameter.
    value : the dataclass of that value, with a field for each option.
    """

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        @wraps(command)
        def with_value(**given: Any) -> None:
            own = {field.name: given.pop(field.name) for field in fields(value)}
            command(**given, **{name: value(**own)})

        decorated: Callable[..., None] = with_value
        for option in reversed(options):
            decorated = option(decorated)
        return decorated

    return decorate


def help_text(option: Option) -> str:
    """Return an option's meaning, and its default.

    Where the default is an empty text, its meaning says what happens without the option.
    """
    if option.default == "":
        return option.doc
    default = str(option.default)
    return f"{option.doc} [default: {default.lower() if option.type is bool else default}]"
