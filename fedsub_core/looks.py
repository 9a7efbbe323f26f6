"""Looks for a message: how long a device waits before its next, and a server with it.

A device that was served looks soon. While nothing comes it looks less and less often: a thousand
devices that look every 3 s take all of a server's time. It waits a share of the time since it was
served, so who has waited for slower ones is late by less than they were.
"""

from __future__ import annotations

#: Seconds before a look, at least and at most; and their share of the time since it was served.
FIRST_SECONDS, MOST_SECONDS, SHARE = 3.0, 30.0, 0.5


def pause(idle: float) -> float:
    """Return the seconds before the next look of a device that was served `idle` s ago.

    A message that came for it meanwhile waits no longer than that.
    """
    return min(MOST_SECONDS, max(FIRST_SECONDS, SHARE * idle))


def lateness(idle: float) -> float:
    """Return by how many seconds a look may come later than that of a device just served."""
    return pause(idle) - FIRST_SECONDS
