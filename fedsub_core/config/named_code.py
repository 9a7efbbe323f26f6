"""Code that a run's configuration names: of its model, and of its encoder."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from fedsub_core.config.settings import ModelSettings
from fedsub_core.encoders.module_names import NamedModule, code_of
from fedsub_core.models.known_code import check_code, note_code
from fedsub_core.models.names import is_place
from fedsub_core.spelling import Spelling, spelt

#: The options that may name code.
CODE = MODEL, ENCODER = "model", "encoder"


def code_named(settings: ModelSettings) -> dict[str, str]:
    """Return the options that name code, each as people give it."""
    encoder = NamedModule.parse(settings.encoder)
    given = {MODEL: settings.model, ENCODER: "" if encoder is None else encoder.given}
    return {option: value for option, value in given.items() if is_place(value)}


def note_named(settings: ModelSettings) -> None:
    """Note the code that a user's configuration names (:func:`note_code`)."""
    for option in CODE:
        note_option(option, str(getattr(settings, option)))


def note_option(option: str, value: str) -> None:
    """Note the code that an option's value means."""
    note_code(place_in(option, value))


def check_named(
    settings: ModelSettings,
    where: Path | str,
    given: Mapping[str, Any],
    spelling: Spelling = spelt,
) -> None:
    """Refuse code that a file names, unless the user named it (:func:`check_code`).

    Parameters
    ----------
    where : the file or folder that names it.
    given : what the user gives, by option.
    spelling : how to give an option, for the message.

    Raises
    ------
    ConfigError
        If code was never named, or was changed since, or there is none at its place.
    """
    for option in CODE:
        own = [str(given.get(option, ""))]
        check_option(option, str(getattr(settings, option)), where, own, spelling)


def check_option(
    option: str,
    value: str,
    where: Path | str,
    given: Sequence[str],
    spelling: Spelling = spelt,
) -> None:
    """Do what :func:`check_named` does, for one option's `value`; the user gives it `given`."""
    named = NamedModule.parse(value) if option == ENCODER else None
    give = spelling(option, value if named is None else named.given)
    own = [place_in(option, one) for one in given]
    check_code(place_in(option, value), where, own, give, option)


def place_in(option: str, value: str) -> str:
    """Return the place of the code that an option's value means, or a text that is no place."""
    return code_of(value) if option == ENCODER else value
