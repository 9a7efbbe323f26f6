"""Functions of a user's own that training calls: losses and augmentations."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from fedsub_core.config.parts import Part
from fedsub_core.errors import ConfigError, FedSubError, cut
from fedsub_core.models.builders import builder_at


def function_at(
    part: Part, option: str, taken: int, takes: str, given: tuple[str, ...] = ()
) -> Callable[..., Any]:
    """Return a user's function with its arguments; a class is made with them first."""
    found = builder_at(part.name, option, takes)
    try:
        if isinstance(found, type):
            made: Callable[..., Any] = part.bound(found, option)()
            return made
        return found if part.plain else part.bound(found, option, taken, given)
    except (TypeError, ValueError) as error:
        raise ConfigError(f"{option}: {part.name}: {error}, expected its arguments") from error


@contextmanager
def calling(what: str, where: str, expected: str) -> Iterator[None]:
    """Raise what such a function raises as a ConfigError that names it, client and round.

    Parameters
    ----------
    where : the client and the round, in words.
    expected : from the function, in words.
    """
    try:
        yield
    except FedSubError as error:
        raise ConfigError(f"{what}: {error}") from error
    except Exception as error:  # whatever somebody's function raises
        raise ConfigError(
            f"{what}: {where}: got {type(error).__name__}: {cut(error)}; expected {expected}"
        ) from error
