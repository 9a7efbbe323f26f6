"""The file of a server's last report on itself, to be read without anything that computes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fedsub_core.files import write_whole

LIVE_FILE = "live.json"
#: Seconds after which it is written whatever changed: who reads it on another machine sees by this
#: that the server is there.
BEAT_SECONDS = 30.0


def read_live(folder: Path) -> dict[str, Any] | None:
    """Return the server's last report on itself; None where there is no such file, or it is none.

    It may have been written by another version: whoever reads it must expect keys to lack.
    """
    try:
        facts = json.loads((folder / LIVE_FILE).read_text("utf-8"))
    except (OSError, ValueError):
        return None
    return facts if isinstance(facts, dict) else None


def nodes_of(live: Mapping[str, Any] | None) -> tuple[dict[str, int], set[str]]:
    """Return everybody's last node, by client id, and the clients whose key is unregistered."""
    listed = (live or {}).get("people")
    people = listed if isinstance(listed, dict) else {}
    each = {client: own for client, own in people.items() if isinstance(own, dict)}
    nodes = {client: own["node"] for client, own in each.items() if type(own.get("node")) is int}
    return nodes, {client for client, own in each.items() if own.get("retired") is True}


def forget_live(folder: Path, client: str) -> None:
    """Remove a client from the server's last report, and texts that may name it.

    Of others stay the nodes that the next process must know; it writes all else anew.
    """
    if (live := read_live(folder)) is None:
        (folder / LIVE_FILE).unlink(missing_ok=True)
        return
    nodes, retired = nodes_of(live)
    people = {
        other: {"node": node, "retired": other in retired, "online": False}
        for other, node in nodes.items()
        if other != client
    }
    left = {"host": live.get("host"), "people": people}
    write_whole(folder / LIVE_FILE, (json.dumps(left, indent=1) + "\n").encode())
