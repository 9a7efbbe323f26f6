"""A device's policy: when its owner lets it compute. It stands in a file beside its state."""

from __future__ import annotations

import re
import time
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fedsub_core.errors import ConfigError, FedSubError
from fedsub_core.wire.daily_hours import DAY, DailyHours

POLICY_FILE = "policy.toml"
#: Where Linux says how it is fed and connected.
POWER, ROUTES = Path("/sys/class/power_supply"), Path("/proc/net/route")
_HOURS = re.compile(r"(\d{1,2})-(\d{1,2})")


class Unwilling(FedSubError):
    """A device does not compute now: its owner's policy does not allow it, or the person left."""


@dataclass(frozen=True)
class Present:
    """The present of a device.

    Parameters
    ----------
    hour : of its own clock, 0 to 23.
    charging : whether it is at the mains; a machine without a battery is.
    battery : share of the battery that is left; 1 without one.
    wifi : whether it is not on a metered link: its route is over Wi-Fi or a cable.
    """

    hour: int
    charging: bool = True
    battery: float = 1.0
    wifi: bool = True

    @classmethod
    def read(cls) -> Present:
        """Return the present of this machine; what it does not say stands in nobody's way."""
        levels, mains = list[float](), list[bool]()
        for supply in sorted(POWER.glob("*")):
            if (level := _text(supply / "capacity")).isdigit():
                levels.append(int(level) / 100)
                mains.append(_text(supply / "status") in ("Charging", "Full", "Not charging"))
            elif online := _text(supply / "online"):
                mains.append(online == "1")
        lines = _text(ROUTES).splitlines()[1:]
        routes = [line.split()[0] for line in lines if line.split()[1:2] == ["00000000"]]
        metered = bool(routes) and all(name.startswith(("wwan", "rmnet", "ppp")) for name in routes)
        charging = any(mains) or not levels
        return cls(time.localtime().tm_hour, charging, min(levels, default=1.0), not metered)


_WANTED = {
    "charging": "true or false",
    "wifi": "true or false",
    "hours": "a text such as '22-7'",
    "battery": "a number",
}


@dataclass(frozen=True)
class Policy:
    """The owner's conditions, all of which must hold.

    Parameters
    ----------
    charging, wifi : whether it must be at the mains, or on no metered link.
    hours : such as ``22-7``, of the device's own clock, from the first to before the second; "":
        all hours.
    battery : share of the battery that must be left.

    Raises ConfigError if it never allows anything, or a value is none.
    """

    charging: bool = False
    wifi: bool = False
    hours: str = ""
    battery: float = 0.0

    def __post_init__(self) -> None:
        kinds = {"charging": (bool,), "wifi": (bool,), "hours": (str,), "battery": (int, float)}
        for key, kind in kinds.items():
            got = getattr(self, key)
            if type(got) not in kind:
                wanted = _WANTED[key]
                raise ConfigError(f"policy: {key}: got {got!r}, expected {wanted}")
        if self.hours:
            begin, end = self._bounds()
            if max(begin, end) > 24 or begin % 24 == end % 24:
                expected = "two different hours from 0 to 24, such as 22-7; no hours allow all"
                raise ConfigError(f"policy: hours: got {self.hours!r}, expected {expected}")
        if not 0 <= self.battery < 1:
            expected = "a share from 0 to below 1: a battery is never above 1"
            raise ConfigError(f"policy: battery: got {self.battery!r}, expected {expected}")

    def _bounds(self) -> tuple[int, int]:
        found = _HOURS.fullmatch(self.hours)
        if found is None:
            raise ConfigError(f"policy: hours: got {self.hours!r}, expected such as 22-7")
        return int(found[1]), int(found[2])

    def daily(self, now: time.struct_time) -> DailyHours | None:
        """Return the hours of each day, from a time of the device's own clock on; None: all."""
        if not self.hours:
            return None
        begin, end = self._bounds()
        seconds = 3600 * now.tm_hour + 60 * now.tm_min + min(now.tm_sec, 59)
        return DailyHours((3600 * begin - seconds) % DAY, 3600 * ((end - begin) % 24))

    def why_not(self, now: Present) -> str:
        """Return why the device does not compute now; "" if it may."""
        if self.charging and not now.charging:
            return "it is not charging"
        if self.wifi and not now.wifi:
            return "it is on a metered link"
        if now.battery <= self.battery and self.battery:
            return f"its battery is at {now.battery:.0%}, expected above {self.battery:.0%}"
        if self.hours:
            begin, end = self._bounds()
            inside = begin <= now.hour < end if begin < end else not end <= now.hour < begin
            if not inside:
                return f"it is {now.hour} o'clock there, expected {self.hours}"
        return ""


def read_policy(folder: Path) -> Policy:
    """Return the policy in a device's folder; one that allows all where there is none.

    Raises ConfigError if it cannot be read, has an unknown key, or never allows anything.
    """
    path = folder / POLICY_FILE
    if not path.is_file():
        return Policy()
    try:
        values: Mapping[str, Any] = tomllib.loads(path.read_text("utf-8"))
        return Policy(**values)
    except (OSError, ValueError, TypeError) as error:
        raise ConfigError(f"{path}: got {error}, expected keys of a policy") from error


def check_policy(folder: Path, client: str) -> None:
    """Raise Unwilling if a device's policy does not allow to compute now; else as read_policy."""
    policy = read_policy(folder)
    if policy != Policy() and (why := policy.why_not(Present.read())):
        raise Unwilling(f"client {client!r}: by its policy it does not take part now: {why}")


def _text(path: Path) -> str:
    try:
        return path.read_text("utf-8").strip()
    except OSError:
        return ""
