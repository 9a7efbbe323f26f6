"""Options on times: their unit, form and zone, and what a split keeps together."""

import re
from dataclasses import dataclass
from zoneinfo import ZoneInfo, available_timezones

from fedsub_core.data.card import GROUPS
from fedsub_core.errors import ConfigError
from fedsub_core.options import choice, option, suggestion
from fedsub_data.importing.target_options import TargetOptions
from fedsub_data.importing.written_options import AUTO

#: The word that takes rows as they are instead of windows of them.
NONE = "none"
_SECONDS = {"": 1.0, "s": 1.0, "ms": 1e-3, "min": 60.0, "h": 3600.0}
#: What a split keeps together where nobody says it.
WINDOW = "window"


@dataclass(frozen=True)
class TimeOptions(TargetOptions):
    """Options on times; every default fits times in UTC, or since a device's start."""

    time_unit: str = choice(AUTO, "s", "ms", "us", "ns", doc="unit of times that are numbers")
    dates: str = choice(
        AUTO,
        "year-first",
        "day-first",
        "month-first",
        doc="what stands first in dates as text, such as 09.05.2025 or 05/09/2025; auto: by a day "
        "above 12 among them",
    )
    time_format: str = option(
        "",
        "form of times as text, such as '%d %b %Y %H:%M:%S', as Python's strptime has it",
        pattern=r".*%\w.*|",
        like="a form with % such as '%d %b %Y %H:%M:%S'",
    )
    timezone: str = option(
        "",
        "zone of dates that name none, such as Europe/Berlin; without it they are UTC",
    )
    doubled_hour: str = choice(
        "stop",
        "first",
        "second",
        doc="which hour is meant where clocks were put back and rows do not show it",
    )
    split_by: str = choice(
        WINDOW,
        *GROUPS,
        doc="what a run's split keeps together: nothing beyond a window, or all of a recording, of "
        "a day, or of a session (recordings until a pause)",
    )
    session_gap: str = option("30min", "pause after which a new session begins, with split-by")

    def check_times(self) -> None:
        """Refuse a zone that is not known, and a pause that is none; raises ConfigError."""
        if seconds("session-gap", self.session_gap) is None:
            raise ConfigError(
                f"session-gap: got {self.session_gap!r}, expected a duration such as 30min or 2h"
            )
        if self.timezone and self.timezone not in (known := available_timezones()):
            near = suggestion(self.timezone, known)
            raise ConfigError(
                f"timezone: got {self.timezone!r}, expected a zone such as Europe/Berlin or UTC."
                f"{near}"
            )

    @property
    def groups(self) -> str | None:
        """What a split keeps together, as a card says it; None: windows alone."""
        return None if self.split_by == WINDOW else self.split_by

    @property
    def zone(self) -> ZoneInfo | None:
        """The zone of dates that name none; None: UTC."""
        return ZoneInfo(self.timezone) if self.timezone else None

    @property
    def date_form(self) -> str:
        """The form of times as text: what stands first in dates, or a form with ``%``."""
        return self.time_format or self.dates


def seconds(key: str, text: str) -> float | None:
    """Return a duration such as ``2.56s``, ``500ms`` or ``1min``; None for ``none`` and ``auto``.

    Raises ConfigError for any other text; it names `key`.
    """
    if text in (NONE, AUTO):
        return None
    shown = "2.56s, 500ms or auto" if key in ("window", "gap") else "500ms, 30min or 2h"
    match = re.fullmatch(r"\s*(\d+\.?\d*|\.\d+)\s*(s|ms|min|)\s*", text)
    if match is None or not 0 < (length := float(match[1]) * _SECONDS[match[2]]) < 1e6:
        raise ConfigError(f"{key}: got {text!r}, expected a duration such as {shown}")
    return length
