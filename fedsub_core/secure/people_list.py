"""The list of a sum's people and their keys, as hashes, by which each of them goes.

Where all are neighbours, each person makes the list of its neighbours and itself. Of more people
the server sends it, 32 bytes each.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from fedsub_core.secure import graph


@dataclass(frozen=True)
class PeopleList:
    """A list of people and their keys.

    Parameters
    ----------
    leaves : :func:`leaf` of each, ascending.
    """

    leaves: Sequence[bytes]

    @classmethod
    def of(cls, keys: Mapping[str, bytes]) -> PeopleList:
        """Return the list of these people, who have shown these keys."""
        return cls(sorted(leaf(client, joined) for client, joined in keys.items()))

    def joined(self) -> bytes:
        """Return the leaves in a row."""
        return b"".join(self.leaves)

    @property
    def digest(self) -> str:
        """A hash of the list, in hexadecimal."""
        return hashlib.sha256(self.joined()).hexdigest()

    def fault(self, known: Iterable[bytes]) -> tuple[str, str] | None:
        """Return the fault of the list for a person who knows these leaves; None without one.

        That is what came and what was expected. A list of many people, each with few neighbours,
        would make a sum of these few look like one of all.
        """
        known = set(known)
        if lacking := len(known - set(self.leaves)):
            return f"a list without {lacking} of them, or of other keys", "all neighbours in it"
        if (people := len(known)) != (expected := graph.enough(len(self.leaves)) + 1):
            return f"{people - 1} neighbours among {len(self.leaves)} people", f"{expected - 1}"
        return None


def leaf(client: str, keys: bytes) -> bytes:
    """Return the 32 bytes that stand for a person and its keys."""
    return hashlib.sha256(f"fedsub person {client} ".encode() + keys).digest()
