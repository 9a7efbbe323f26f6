"""Hours of each day in which a device may take part, as it says them in the handshake.

They are told from the moment on at which they are said: whatever the device's clock says, both
sides mean the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fedsub_core.wire.handshake import Introduction

DAY = 86_400
#: Their key in the handshake.
HOURS = "hours"


@dataclass(frozen=True)
class DailyHours:
    """The hours of each day in which a device may take part.

    Parameters
    ----------
    begin : seconds until they begin next; on the server by the link's clock.
    length : how long they last, s.
    """

    begin: float
    length: int

    def left(self, now: float) -> float:
        """Return for how many seconds a device may still take part; 0: not now."""
        return max(self.length - (now - self.begin) % DAY, 0.0)


def read_hours(record: Mapping[str, object]) -> DailyHours | None:
    """Return the hours in a handshake; None of a device that says none; raise ValueError."""
    if HOURS not in record:
        return None
    said = record[HOURS]
    if not (isinstance(said, list) and [type(one) for one in said] == [int, int]):
        raise ValueError(f"{HOURS}: expected two whole numbers")
    begin, length = said
    if not (0 <= begin <= DAY and 0 < length <= DAY):
        raise ValueError(f"{HOURS}: {begin} and {length}: expected seconds of a day")
    return DailyHours(begin, length)


def heard(said: Introduction, now: float) -> Introduction:
    """Return an introduction whose hours are by the clock of who heard it at `now`, s."""
    if said.facts.hours is None:
        return said
    hours = replace(said.facts.hours, begin=now + said.facts.hours.begin)
    return replace(said, facts=replace(said.facts, hours=hours))
