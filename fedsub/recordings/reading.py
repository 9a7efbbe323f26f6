"""Options by which a recording is read: those of an import that concern times, units and text."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from fedsub_core.errors import ConfigError
from fedsub_core.options import read_options
from fedsub_core.spelling import spelt
from fedsub_data.importing.options import ImportOptions, seconds

if TYPE_CHECKING:
    from fedsub_client.personal_model import PersonalModel

#: Their keys.
READING = (
    "time", "time-unit", "dates", "gap", "not-numbers", "duplicates", "backwards", "convert",
    "mixed-units", "decimal", "delimiter", "encoding", "skip", "skip-lines", "column-names",
    "time-format", "layout", "sensors", "bad-lines", "memory",
)  # fmt: skip
#: In place of a mean time that a class lasts: that of the model's training samples.
TRAINING = "training"


def reading_options(given: Mapping[str, str]) -> ImportOptions:
    """Return the options of an import with the given values.

    Raises ConfigError where one is unknown, has another value, or says what the model says.
    """
    if others := [key for key in given if key not in READING]:
        raise ConfigError(f"predict: got option {others[0]!r}, expected {', '.join(READING)}")
    options = read_options(ImportOptions, dict(given), "predict")
    if options.convert_like:
        raise ConfigError(
            f"got {spelt('convert', options.convert)}, expected a unit such as g or m/s^2: a "
            "recording is of nobody else"
        )
    return options


def smoothing_seconds(text: str, model: PersonalModel) -> float | None:
    """Return the mean time that a class lasts, s; None where nothing is smoothed.

    `text`: a duration, or :data:`TRAINING`: as long as in the training samples of `model`.

    Raises ConfigError where the text is neither, or nobody knows how long a class lasted.
    """
    if not text:
        return None
    length = model.stay_s if text == TRAINING else seconds("smooth", text)
    if length is None:
        unknown = (
            "; no two windows of this model's training samples are known to touch in time"
            if text == TRAINING
            else f", or {TRAINING}"
        )
        raise ConfigError(f"smooth: got {text!r}, expected a duration such as 10s{unknown}")
    return length
