"""Joined messages: all records of a message in one ConfigRecord.

A SuperLink keeps each record as an object of its own, an array as three, and each costs a request
of whoever fetches or sends it. The keys of a joined record are ``RECORD.KEY``, and ``payload`` for
the payload's bytes.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from flwr.app import ArrayRecord, ConfigRecord, MetricRecord, RecordDict

from fedsub_core.errors import MessageRefused, cut
from fedsub_core.secure.messages import SECURE
from fedsub_core.wire.exchange import (
    METRICS,
    MODEL,
    PAYLOAD,
    REPORT,
    SALT,
    TURN,
    pack,
    unpack,
)

#: The name of the record.
JOINED = "joined"
#: Largest payload in a joined record: Flower hashes and copies a record several times, so that a
#: larger one takes longer than the requests that it saves.
MOST_BYTES = 2**19
#: Records that can be joined, by their kinds; those of the handshake come before it is known that
#: the other side understands joined ones.
_KINDS = {
    TURN: ConfigRecord,
    MODEL: ConfigRecord,
    SECURE: ConfigRecord,
    REPORT: MetricRecord,
    METRICS: MetricRecord,
}


def joined(content: RecordDict) -> RecordDict:
    """Return a message's records in one; as they are where they cannot be joined."""
    values = dict[str, Any]()
    for name, record in content.items():
        if name == PAYLOAD and isinstance(record, ArrayRecord):
            values[PAYLOAD] = unpack(content)
            if len(values[PAYLOAD]) > MOST_BYTES:
                return content
        elif name in _KINDS and not isinstance(record, ArrayRecord):
            values |= {f"{name}.{key}": value for key, value in record.items()}
        else:
            return content
    return RecordDict({JOINED: ConfigRecord(values)})


def separate(content: RecordDict, client: str) -> RecordDict:
    """Return the records of a joined message; inverse of :func:`joined`.

    Raises MessageRefused if there is a record beside it, one that cannot be joined in it, or a
    value of a kind that its record does not have. It names `client`, whose message it is.
    """
    if JOINED not in content:
        return content
    found, values = RecordDict(), defaultdict[str, dict[str, Any]](dict)
    record, round = content[JOINED], 0
    if len(content) > 1 or not isinstance(record, ConfigRecord):
        got = f"{cut(sorted(content))} with a {type(record).__name__}"
        raise MessageRefused(client, round, JOINED, got, "one ConfigRecord alone")
    if isinstance(told := record.get(f"{TURN}.round", record.get(f"{SECURE}.round")), int):
        round = told
    for key, value in record.items():
        name, dot, inner = key.partition(".")
        if key == PAYLOAD and isinstance(value, bytes):
            found[PAYLOAD] = pack(value)
        elif dot and name in _KINDS:
            values[name][inner] = value
        elif key != SALT:
            kind = type(value).__name__
            expected = f"{PAYLOAD} of bytes, or keys of {', '.join(_KINDS)}"
            raise MessageRefused(client, round, JOINED, f"{key} of {kind}", expected)
    for name, own in values.items():
        try:
            found[name] = _KINDS[name](own)
        except (TypeError, ValueError) as error:
            expected = f"values of a {_KINDS[name].__name__}"
            raise MessageRefused(client, round, f"{JOINED}: {name}", str(error), expected) from None
    return found
