"""What the names of clients look like: they become file names and keys of the server's database."""

from __future__ import annotations

import re

CLIENT_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
#: The same in words, for messages.
CLIENT_ID_RULE = (
    "at most 64 letters, digits, '.', '_' and '-', of which the first is a letter or digit"
)


def is_client_id(name: str) -> bool:
    """Whether `name` may be a client's id."""
    return CLIENT_ID.fullmatch(name) is not None
