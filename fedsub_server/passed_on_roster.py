"""The roster of people that a server passes on to devices which lack the latest."""

from __future__ import annotations

from pathlib import Path

from fedsub_core.errors import RunError
from fedsub_core.secure.roster import FIRST_LINE
from fedsub_core.wire.greeting import MOST_ROSTER_BYTES

#: In a run's folder, where its owner's latest is copied to.
ROSTER_FILE = "roster.txt"


def read_roster(folder: Path) -> bytes:
    """Return the roster in a run's folder as it is passed on to devices; b"": there is none.

    Who signed it the server does not know; each device does.

    Raises RunError if the file cannot be read, is no roster, or is too large.
    """
    path = folder / ROSTER_FILE
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return b""
    except OSError as error:
        raise RunError(f"{path}: cannot be read ({error})") from error
    if not data.startswith(f"{FIRST_LINE}\n".encode()):
        raise RunError(f"{path}: got another first line, expected {FIRST_LINE!r}")
    if len(data) > MOST_ROSTER_BYTES:
        raise RunError(f"{path}: got {len(data)} bytes, expected at most {MOST_ROSTER_BYTES}")
    return data
