"""What a server last said of itself, to be read without anything that computes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

LIVE_FILE = "live.json"
#: Seconds after which it is written whatever changed: who reads it on another machine sees by this
#: that the server is there.
BEAT_SECONDS = 30.0


def read_live(folder: Path) -> dict[str, Any] | None:
    """Return what the server last said of itself; None where there is no such file or it is none.

    It may have been written by another version: whoever reads it must expect keys to lack.
    """
    try:
        found = json.loads((folder / LIVE_FILE).read_text("utf-8"))
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) else None


def forget_live(folder: Path) -> None:
    """Leave nothing of anybody in what the server last said: the next run writes it anew."""
    (folder / LIVE_FILE).unlink(missing_ok=True)
