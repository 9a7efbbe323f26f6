"""A person's leave: what a device answers from then on, and what a server says that it deleted.

A device whose person left answers every message with a record :data:`LEAVE` in place of what was
asked. The node's key vouches for it, as for any answer. A server that has forgotten the person
sends a record :data:`LEFT`, once for each time that the device says so in a handshake.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from flwr.app import ConfigRecord

from fedsub_core.errors import MessageRefused

LEAVE, LEFT = "leave", "left"
#: Sentences of a record at most, and characters of each.
MOST_SENTENCES, LONGEST = 50, 1000


@dataclass(frozen=True)
class Left:
    """The record of what a server deleted of a person, and what it cannot delete, in sentences."""

    deleted: Sequence[str]
    remains: Sequence[str]

    def record(self) -> ConfigRecord:
        """Return the record as plain values."""
        return ConfigRecord({"deleted": list(self.deleted), "remains": list(self.remains)})


def leave_record(client: str) -> ConfigRecord:
    """Return a device's answer to all that it is asked, once its person left."""
    return ConfigRecord({"client": client})


def read_left(record: object, client: str) -> Left:
    """Return the record that a server sends of `client`, who left.

    Raises MessageRefused if it is no such record.
    """
    lists = [record.get(key) if isinstance(record, ConfigRecord) else None for key in _KEYS]
    for key, given in zip(_KEYS, lists, strict=True):
        if not isinstance(given, list) or len(given) > MOST_SENTENCES:
            expected = f"{key}: {MOST_SENTENCES} sentences at most"
            raise MessageRefused(client, 0, LEFT, str(given), expected)
        if any(not isinstance(t, str) or len(t) > LONGEST or not t.isprintable() for t in given):
            expected = f"{key}: printable text of {LONGEST} characters at most"
            raise MessageRefused(client, 0, LEFT, str(given), expected)
    deleted, remains = ([str(text) for text in given] for given in lists if isinstance(given, list))
    return Left(deleted, remains)


_KEYS = ("deleted", "remains")
