"""Seconds that FedSub's programs of a deployment are told by the environment."""

import math
import os
from contextlib import suppress
from typing import TypeVar

from fedsub_core.errors import ConfigError

Default = TypeVar("Default", float, None)

#: How often a SuperNode looks for a message; how long a SuperExec keeps a warm process.
LOOK_SECONDS, WARM_SECONDS = "FEDSUB_LOOK_SECONDS", "FEDSUB_WARM_SECONDS"


def read_seconds(
    name: str, default: Default, least: float = 0.0, most: float = math.inf
) -> float | Default:
    """Return the seconds, `least` to `most`, that the variable `name` says; `default` without it.

    Raises ConfigError if it says something that is no such time.
    """
    if (said := os.environ.get(name)) is None:
        return default
    with suppress(ValueError):
        if least <= (seconds := float(said)) <= most and seconds < math.inf:
            return seconds
    expected = f"{least:g} or more" if most == math.inf else f"{least:g} to {most:g}"
    raise ConfigError(f"{name}: got {said!r}, expected seconds, {expected}")
