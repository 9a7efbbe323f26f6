"""Code that a run's configuration names: its model, encoder, loss and augmentation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedsub_core.config.parts import places
from fedsub_core.encoders.module_names import NamedModule, code_of
from fedsub_core.errors import ConfigError
from fedsub_core.models.known_code import check_code, note_code
from fedsub_core.models.names import is_place
from fedsub_core.spelling import Spelling, spelt

if TYPE_CHECKING:
    from fedsub_core.config.run_config import RunConfig

#: The options that may name code of a person's model; of its training, which no prediction needs;
#: and of the server alone.
CODE = MODEL, ENCODER = "model", "encoder"
TRAINING_CODE = LOSS, AUGMENT = "loss", "augment"
ON_ROUND = "on-round"
ALL_CODE = *CODE, *TRAINING_CODE, ON_ROUND


def code_named(config: RunConfig) -> dict[str, str]:
    """Return the options that name code of devices, each as people give it."""
    encoder = NamedModule.parse(config.encoder)
    given = {option: str(getattr(config, option)) for option in (*CODE, *TRAINING_CODE)}
    given[ENCODER] = "" if encoder is None else encoder.given
    return {option: value for option, value in given.items() if places_in(option, value)}


def note_named(config: RunConfig) -> None:
    """Note the code that a user's configuration names (:func:`note_code`)."""
    for option in ALL_CODE:
        note_option(option, str(getattr(config, option.replace("-", "_"))))


def note_option(option: str, value: str) -> None:
    """Note the code that an option's value means."""
    for place in places_in(option, value):
        note_code(place)


def check_deployed(config: RunConfig) -> None:
    """Refuse a file as the loss or augmentation of devices that are not this machine.

    Raises ConfigError; it names option and file.
    """
    for option in TRAINING_CODE:
        for place in places_in(option, str(getattr(config, option))):
            if place.rpartition(":")[0].endswith(".py"):
                raise ConfigError(
                    f"{option}: got {place!r}, a file, expected package.module:function: in a "
                    "deployment code comes in a package that is installed on each device, whose "
                    f"owner names it in the node config, {option}=..."
                )


def check_named(
    settings: RunConfig,
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

    Raises ConfigError if code was never named, or was changed since, or there is none at its place.
    """
    for option in ALL_CODE:
        own = [str(given.get(option, ""))]
        value = str(getattr(settings, option.replace("-", "_")))
        check_option(option, value, where, own, spelling)


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
    own = [place for one in given for place in places_in(option, one)]
    for place in places_in(option, value):
        check_code(place, where, own, give, option)


def places_in(option: str, value: str) -> tuple[str, ...]:
    """Return the places of the code that an option's value means; () where it means none."""
    if option in TRAINING_CODE:
        return places(value, option)
    place = code_of(value) if option == ENCODER else value
    return (place,) if is_place(place) else ()
