"""The server's side of one sum (Bonawitz et al. 2017, figure 4, the server's part).

It carries keys and sealed shares from neighbour to neighbour, adds masked vectors, and takes off
the masks of the sum: by the seeds of who sent a vector, and the pair keys of who did not.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np

from fedsub_core.secure.graph import neighbours, threshold
from fedsub_core.secure.keys import (
    Words,
    agreed,
    commitment,
    expanded,
    hash_of,
    private_key,
    public_of,
)
from fedsub_core.secure.messages import (
    KEYS,
    SEALED_BYTES,
    SESSION_BYTES,
    SHARES,
    SIGNED,
    VIEW,
    Keys,
    Name,
    Plan,
    Record,
    Unmask,
    by_client,
)
from fedsub_core.secure.opening import CannotOpen, Opening, Shows
from fedsub_core.secure.participant import between
from fedsub_core.secure.people_list import PeopleList
from fedsub_core.secure.quantise import Levels
from fedsub_core.secure.reader import Reader
from fedsub_core.secure.regrouping import Regrouping
from fedsub_core.secure.shamir import SHARE_BYTES, Entropy
from fedsub_core.secure.transcript import OWN_OF_PLAN, alike


class Summation:
    """One sum.

    Parameters
    ----------
    least : people that it must be of.
    entropy : see :data:`Entropy`.
    """

    def __init__(
        self,
        round: int,
        least: int,
        length: int,
        run: str = "",
        method: str = "",
        entropy: Entropy = secrets.token_bytes,
    ) -> None:
        self.name, self.least = Name(round, entropy(SESSION_BYTES), run, method), least
        self.length = length
        #: Of how many people it may be opened; of how many groups are at least, 0: there are none.
        self.opened_of, self.smallest = least, 0
        #: If it is of one group, that, and the session and people of the sum that is made anew.
        self.group: tuple[str, ...] = ()
        self.anew: tuple[bytes, tuple[str, ...]] | None = None
        self.keys: dict[str, Keys] = {}
        #: Of those who go by a roster: signatures of their keys, and signed views of the sum.
        self.signatures: dict[str, bytes] = {}
        self.views: dict[str, bytes] = {}
        self.sealed: dict[str, dict[str, bytes]] = {}
        self.sent: set[str] = set()
        #: Of the run's transcript: its head, what the plan tells everybody, hashes of the vectors
        #: that came, the name of vectors that stay the same, and what all were told, once opened.
        self.head, self.plan, self.vectors = b"", Record(), dict[str, str]()
        self.once = self.transcript = ""
        self._near: dict[str, tuple[str, ...]] = {}
        self._sum: Words = np.zeros(length, np.uint32)
        self.opening = Opening(round)

    # Questions, and what is taken of the answers.

    def ask_keys(self) -> Record:
        """Return the question for keys, the same to all."""
        if self.anew is not None:
            return Regrouping(self.name, *self.anew).record()
        return self.name.record(KEYS)

    def take_keys(self, client: str, record: Mapping[str, Any]) -> None:
        """Take somebody's keys.

        Raises MessageRefused if they are none, or somebody else's.
        """
        reader = Reader(client, self.name.round)
        shown = reader.keys(record)
        taken = {key for keys in self.keys.values() for key in (keys.seal, keys.mask)}
        if shown.seal == shown.mask or {shown.seal, shown.mask} & taken:
            raise reader.refuse("secure sum: keys", "a key that is taken", "keys of its own")
        if signature := reader.signature(record):
            self.signatures[client] = signature
        self.keys[client] = shown

    def leave_out_unsigned(self) -> list[str]:
        """Leave out whose keys are not signed, where most are; return them.

        Who goes by a roster takes part in no sum with them. Where most do not, these are left to
        refuse by themselves.
        """
        unsigned = sorted(self.keys.keys() - self.signatures.keys())
        if 2 * len(unsigned) > len(self.keys):
            self.signatures, unsigned = {}, []
        for client in unsigned:
            del self.keys[client]
        return unsigned

    def ask_shares(self) -> dict[str, Record]:
        """Return the questions to all who showed keys; neighbours are drawn."""
        self._near = neighbours(sorted(self.keys), self.name.session)
        joined = {client: keys.joined() for client, keys in self.keys.items()}
        listed: Record = {}
        if self.signatures:
            signed = {one: joined[one] + self.signatures[one] for one in sorted(joined)}
            listed = by_client(signed, SIGNED)
        elif any(len(near) + 1 < len(joined) for near in self._near.values()):
            listed["people"] = PeopleList.of(joined).joined()
        return {
            client: {
                **self.name.record(SHARES),
                **by_client({other: joined[other] for other in near}),
                **listed,
            }
            for client, near in self._near.items()
        }

    def take_shares(self, client: str, record: Mapping[str, Any]) -> None:
        """Take the shares that somebody sealed for its neighbours.

        Raises MessageRefused if some lack, or are of another size.
        """
        reader = Reader(client, self.name.round)
        self.sealed[client] = reader.values(record, SEALED_BYTES, self._near[client])

    def plans(self, levels: Levels) -> dict[str, Plan]:
        """Return the plans beside the downloads of those who shared, and can be in the sum."""
        made = partial(Plan, weight=levels.weight, each=levels.each)
        made, found = partial(made, smallest=self.smallest, head=self.head), {}
        self.plan = alike(made(self.name, {}).record(), OWN_OF_PLAN)
        for client in sorted(self.sealed):
            sealed = {other: self.sealed[other][client] for other in self._masked(client)}
            if len(sealed) + 1 >= max(self.least, threshold(len(self._near[client]) + 1)):
                found[client] = made(self.name, sealed)
        return found

    def take_vector(self, client: str, vector: Words) -> None:
        """Add somebody's masked vector."""
        self.sent.add(client)
        self.vectors[client] = hash_of(vector)
        self._sum = self._sum + vector

    def take_words(self, client: str, record: Mapping[str, Any]) -> None:
        """Add somebody's masked vector as it comes in the answer to a query.

        Raises MessageRefused if it is none of this sum's length.
        """
        self.take_vector(client, Reader(client, self.name.round).words(record, self.length))

    def ask_views(self) -> dict[str, Record]:
        """Return the questions, to those who sent a vector, what they saw of who sent one.

        They are the same to all. Where nobody goes by a roster there are none.
        """
        silent = sorted(self.sealed.keys() - self.sent)
        asked = Unmask(self.name, tuple(sorted(self.sent)), tuple(silent)).record(VIEW)
        return dict.fromkeys(sorted(self.sent), asked) if self.signatures else {}

    def take_view(self, client: str, record: Mapping[str, Any]) -> None:
        """Take what somebody saw, signed.

        Raises MessageRefused if it is none.
        """
        self.views[client] = Reader(client, self.name.round).view(record)

    def ask_unmask(self) -> dict[str, Unmask]:
        """Return the requests to those who sent a vector: the masks that each opens.

        Raises CannotOpen if fewer sent one than a sum must be of.
        """
        if len(self.sent) < self.opened_of:
            people = f"{len(self.sent)} vectors came, expected {self.opened_of} at least"
            raise CannotOpen(f"round {self.name.round}: {people}")
        asked = {}
        for client in sorted(self.views if self.signatures else self.sent):
            near = {client, *self._masked(client)}
            sent, silent = sorted(near & self.sent), sorted(near - self.sent)
            views = {other: self.views[other] for other in self.views if other != client}
            asked[client] = Unmask(self.name, tuple(sent), tuple(silent), views)
        return asked

    def take_unmasked(self, client: str, record: Mapping[str, Any]) -> None:
        """Take the shares of others' secrets that somebody holds.

        Raises MessageRefused if some lack, or are of another size.
        """
        reader, held = Reader(client, self.name.round), [client, *self._masked(client)]
        told = reader.hash(record, "told").hex()
        self.opening.shares[client] = reader.values(record, SHARE_BYTES, held)
        self.opening.told[client] = told

    # Opening.

    def open(self) -> Words:
        """Return the sum of the vectors that came, ``[length]`` modulo 2**32.

        Raises CannotOpen if somebody's secret cannot be had of the shares that came; or people were
        told different things, and their masks do not cancel.
        """
        total, length, told = self._sum, self.length, self._told_all()
        self.transcript = told
        for client in sorted(self.sent):
            seed = self._secret(client, "seed", commitment, self.keys[client].commitment)
            total = total - expanded(seed, length)
        for client in sorted(self.sealed.keys() - self.sent):
            if not (others := [c for c in self._masked(client) if c in self.sent]):
                continue  # no mask of its is in the sum
            found = self._secret(client, "pair key", public_of, self.keys[client].mask)
            private = private_key(found)
            for other in others:
                purpose = between(self.name.session.hex(), client, other, told)
                mask = expanded(agreed(private, self.keys[other].mask, purpose), length)
                total = total - mask if other < client else total + mask
        return total

    def _told_all(self) -> str:
        return self.opening.told_all()

    def _secret(self, client: str, what: str, shows: Shows, shown: bytes) -> bytes:
        holders = sorted([client, *self._near[client]])
        return self.opening.secret(client, what, holders, shows, shown)

    def _masked(self, client: str) -> list[str]:
        """Return the neighbours whose shares, and masks, somebody was handed."""
        return [other for other in self._near[client] if other in self.sealed]
