"""Options by which a recording is read: those of an import that concern times, units and text."""

from __future__ import annotations

from collections.abc import Mapping

from fedsub_core.errors import ConfigError
from fedsub_core.options import read_options
from fedsub_core.spelling import spelt
from fedsub_data.importing.options import ImportOptions, seconds

#: Their keys.
READING = (
    "time", "time-unit", "dates", "gap", "not-numbers", "duplicates", "backwards", "convert",
    "mixed-units", "decimal", "delimiter", "encoding", "skip", "bad-lines", "memory",
)  # fmt: skip


def reading_options(given: Mapping[str, str]) -> ImportOptions:
    """Return the options of an import with the given values.

    Raises
    ------
    ConfigError
        Where one is unknown, has another value, or says what the model says.
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


def smoothing_seconds(text: str) -> float | None:
    """Return the mean time that a class lasts, s; None where nothing is smoothed.

    Raises
    ------
    ConfigError
        Where the text is no duration.
    """
    length = seconds("smooth", text) if text else None
    if text and length is None:
        raise ConfigError(f"smooth: got {text!r}, expected a duration such as 10s")
    return length
