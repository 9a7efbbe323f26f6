"""What server and devices tell each other for one sum, as records of plain values.

``docs/wire-format.md`` says the same. Whoever reads one trusts nothing in it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from fedsub_core.secure.keys import KEY_BYTES, TAG_BYTES
from fedsub_core.secure.roster import SIGNATURE_BYTES
from fedsub_core.secure.shamir import SHARE_BYTES
from fedsub_core.version import SUMS_VERSION

#: The name of the record in a message.
SECURE = "secure"
#: What queries ask for. After the second the plan of the sum comes with a download, or, before the
#: first round, with a query for moments.
KEYS, SHARES, MOMENTS, UNMASK = "keys", "shares", "moments", "unmask"
#: What those are asked for, before the last, who go by a roster; and for a vector once more.
VIEW, AGAIN = "view", "again"
#: What moments are of.
SAMPLES, FEATURES = "samples", "features"
SESSION_BYTES = 16
SEALED_BYTES = 2 * SHARE_BYTES + TAG_BYTES
#: People of one sum at most.
MOST_PEOPLE = 2**20
#: Of somebody in the list of a sum's people, and of what an opened sum's people say they were told.
LEAF_BYTES = TOLD_BYTES = 32
#: Of somebody's signed keys, and of the hash of what somebody saw with its signature.
SIGNED_KEYS_BYTES, VIEW_BYTES = 3 * KEY_BYTES + SIGNATURE_BYTES, TOLD_BYTES + SIGNATURE_BYTES

Record = dict[str, Any]


@dataclass(frozen=True)
class Name:
    """Which sum it is.

    Parameters
    ----------
    session : random; tells a round that is repeated, as after a crash, from itself.
    """

    round: int
    session: bytes
    run: str = ""
    method: str = ""

    def record(self, phase: str) -> Record:
        """Return the message as plain values."""
        name = {"version": SUMS_VERSION, "phase": phase, "round": self.round}
        return {**name, "session": self.session, "run": self.run, "method": self.method}


@dataclass(frozen=True)
class Keys:
    """What somebody shows for one sum: two public keys, and what its self mask's seed is held to.

    Parameters
    ----------
    seal, mask : that shares are sealed for, and that pairs of masks are made with.
    commitment : :func:`fedsub_core.secure.keys.commitment`.
    """

    seal: bytes
    mask: bytes
    commitment: bytes

    def joined(self) -> bytes:
        """Return all three, one after another."""
        return self.seal + self.mask + self.commitment

    @classmethod
    def of(cls, joined: bytes) -> Keys:
        """Inverse of :meth:`joined`."""
        return cls(*(joined[i : i + KEY_BYTES] for i in range(0, 3 * KEY_BYTES, KEY_BYTES)))


@dataclass(frozen=True)
class Plan:
    """What comes with a download: neighbours' sealed shares, and how numbers become whole.

    Parameters
    ----------
    sealed : by neighbour.
    weight, each : :class:`fedsub_core.secure.quantise.Levels`.
    told : hash of all of it that everybody is told, also of what this release does not read.
    smallest : people of a group at least, if the sum is made anew in groups; 0: it is not.
    head : of the run's transcript (:mod:`fedsub_core.secure.chain`); none: the server keeps none.
    """

    name: Name
    sealed: Mapping[str, bytes]
    weight: int
    each: int
    told: str = ""
    smallest: int = 0
    head: bytes = b""

    def record(self, phase: str = "sum") -> Record:
        """Return the message as plain values."""
        numbers: Record = {"weight": self.weight, "each": self.each}
        if self.smallest:
            numbers["smallest"] = self.smallest
        if self.head:
            numbers["head"] = self.head
        return self.name.record(phase) | by_client(self.sealed) | numbers


@dataclass(frozen=True)
class Unmask:
    """Whose masks are to be opened: of who sent its vector its own, of who did not those of pairs.

    Parameters
    ----------
    sent, silent : ids, ascending.
    views : what all others saw of who sent and who did not, signed, where they go by a roster.
    """

    name: Name
    sent: tuple[str, ...]
    silent: tuple[str, ...]
    views: Mapping[str, bytes] = field(default_factory=dict)

    def record(self, phase: str = UNMASK) -> Record:
        """Return the message as plain values."""
        named = {"sent": list(self.sent), "silent": list(self.silent)}
        views = by_client(self.views, SIGNERS) if self.views else {}
        return {**self.name.record(phase), **named, **views}


#: The two keys of a record that have values by client: of neighbours, of all with signed keys, and
#: of those whose view is signed.
CLIENTS, SIGNED, SIGNERS = ("clients", "values"), ("signed", "signed_keys"), ("signers", "views")


def by_client(values: Mapping[str, bytes], keys: tuple[str, str] = CLIENTS) -> Record:
    """Return values by client as plain lists."""
    return dict(zip(keys, (list(values), list(values.values())), strict=True))
