"""The classes that a run's people agreed on in the handshake, as its database keeps them.

Labels are numbers in every message and metric. Which class a number is, only the devices know: a
server's configuration may name other data than theirs.
"""

from __future__ import annotations

import json
import sqlite3
import zlib

from safetensors import deserialize

from fedsub_core.sealing import unseal
from fedsub_server.resuming import SERVER

#: What :class:`strategies.rounds.agreement.Agreement` keeps its facts under. Named here once more,
#: as that module imports PyTorch, for which `fedsub status` need not wait.
_FACTS = "federation.facts"


def agreed_classes(connection: sqlite3.Connection) -> tuple[str, ...]:
    """Return the names of label 0, 1, ...; none before the first commit of a server's state.

    Raises sqlite3.DatabaseError if they are damaged.
    """
    query = "SELECT crc, tensors FROM state WHERE name = ?"
    crc, blob = connection.execute(query, (SERVER,)).fetchone() or (None, None)
    if blob is None:
        return ()
    if zlib.crc32(blob) != crc:
        raise sqlite3.DatabaseError(f"the checksum of state {SERVER!r} is wrong")
    facts = dict(deserialize(unseal(blob, SERVER))).get(_FACTS)  # type: ignore[no-untyped-call]
    return () if facts is None else tuple(json.loads(bytes(facts["data"]))["classes"])
