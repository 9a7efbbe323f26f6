"""The people of a federation, where one SuperLink has the devices of several."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from fedsub_core.errors import RunError, cut
from fedsub_core.identifiers import CLIENT_ID_RULE, is_client_id

#: In a run's folder: a client id in each line. Without the file everybody takes part.
MEMBERS_FILE = "members.txt"


def is_elsewhere(client: str, members: Collection[str] | None) -> bool:
    """Return whether a client, if its name is known, takes part in another federation alone."""
    return bool(client) and members is not None and client not in members


def read_members(folder: Path) -> frozenset[str] | None:
    """Return the client ids of the people who take part in the run in `folder`; None: everybody.

    Raises RunError if the list cannot be read, or a line of it is no client id.
    """
    path = folder / MEMBERS_FILE
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise RunError(f"{path}: got {cut(error)}, expected a client id in each line") from error
    names = [line.strip() for line in lines if line.strip()]
    if wrong := [name for name in names if not is_client_id(name)]:
        raise RunError(f"{path}: got the line {cut(wrong[0])!r}, expected {CLIENT_ID_RULE}")
    return frozenset(names)
