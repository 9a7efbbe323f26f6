"""Forgotten people: known again by a digest, which names nobody.

A run that goes on leaves such people out, though their data are there, or their devices connect.
Each run salts its digests anew. Whoever has the file can still check a guessed name.
"""

from __future__ import annotations

import hashlib
import json
import re
import secrets
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from fedsub_core.errors import RunError
from fedsub_core.files import write_whole

if TYPE_CHECKING:
    from fedsub_core.data.federation import Federation

FORGOTTEN_FILE = "forgotten.json"
_ALIAS = re.compile(r"\(forgotten \d+\)")
_SALT_BYTES = 16


@dataclass(frozen=True)
class Forgotten:
    """The people whom a run was told to forget.

    Parameters
    ----------
    salt : the run's own, in hexadecimal; "" where nobody was forgotten.
    digests : of names.
    """

    salt: str = ""
    digests: frozenset[str] = frozenset()

    def __contains__(self, client: object) -> bool:
        """Return whether a client is one of them."""
        return bool(self.digests) and _digest(str(client), self.salt) in self.digests

    def digest(self, client: str) -> str:
        """Return the digest under which the run's files know a client without naming it."""
        return _digest(client, self.salt)

    def __len__(self) -> int:
        """Return the number of forgotten people."""
        return len(self.digests)

    def without_them(self, federation: Federation) -> Federation:
        """Return the federation without the forgotten people."""
        left = {name: own for name, own in federation.clients.items() if name not in self}
        return replace(federation, clients=left)


def read_forgotten(folder: Path) -> Forgotten:
    """Return the forgotten people of the run in `folder`.

    Raises RunError if its file is damaged: then nobody knows who must not take part.
    """
    path = folder / FORGOTTEN_FILE
    try:
        kept = json.loads(path.read_text("utf-8"))
        return Forgotten(str(kept["salt"]), frozenset(map(str, kept["digests"])))
    except FileNotFoundError:
        return Forgotten()
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise RunError(
            f"{path}: {type(error).__name__}: {error}; expected whom this run was told to forget. "
            "Restore the file, or remove it and forget them again"
        ) from error


def note_forgotten(folder: Path, client: str) -> None:
    """Note that the run in `folder` is to forget a client; raises as :func:`read_forgotten`."""
    kept = read_forgotten(folder)
    kept = replace(kept, salt=kept.salt or secrets.token_hex(_SALT_BYTES))
    digests = sorted({*kept.digests, _digest(client, kept.salt)})
    text = json.dumps({"salt": kept.salt, "digests": digests}, indent=1) + "\n"
    write_whole(folder / FORGOTTEN_FILE, text.encode())


def alias(number: int) -> str:
    """Return the name for the metrics of the n-th forgotten person, which is no client's id."""
    return f"(forgotten {number})"


def is_alias(name: str) -> bool:
    """Whether a name is an :func:`alias`."""
    return _ALIAS.fullmatch(name) is not None


def _digest(client: str, salt: str) -> str:
    return hashlib.blake2b(client.encode(), key=salt.encode(), digest_size=16).hexdigest()
