"""Groups in which a sum is made anew that nobody's samples can have led to.

One person with a wrong vector spoils a sum, and the sum does not say who. So its people are parted
into groups, each as large as any sum of these vectors must be, and each group adds up the very
vectors again, under fresh masks. Three rules keep what groups' sums tell to sums over as many:

- There is one partition of a sum's people in a run. A second one would have parts in common with
  the first, which may be of one person; and what people add up changes little from round to round.
- A group's sum is of the whole group, or of nobody: what lacks in it would follow from the others.
- Each vector is the one that was in the first sum.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Self

from fedsub_core.errors import MessageRefused
from fedsub_core.secure.messages import KEYS, SESSION_BYTES, Name, Record
from fedsub_core.secure.reader import Reader
from fedsub_core.secure.transcript import digest


def groups_of(people: Sequence[str], run: str, method: str, smallest: int) -> list[tuple[str, ...]]:
    """Return the partition of a sum's people into as many groups as can be, of like sizes.

    Parameters
    ----------
    run, method : of the sum; by them people are ordered, the same in all rounds.
    smallest : people of a group at least. One group, if there are fewer than two times as many.
    """
    of = f"fedsub groups\x1f{run}\x1f{method}\x1f"
    order = sorted(people, key=lambda one: hashlib.sha256(f"{of}{one}".encode()).digest())
    count = max(1, len(order) // smallest)
    ends = [len(order) * i // count for i in range(count + 1)]
    return [tuple(sorted(order[a:b])) for a, b in pairwise(ends)]


@dataclass(frozen=True)
class Regrouping:
    """The question for keys of a sum of one group, in which an opened sum is made anew.

    Parameters
    ----------
    name : of the group's sum.
    of : session of the opened sum.
    """

    name: Name
    of: bytes
    people: tuple[str, ...]

    def record(self) -> Record:
        """Return the message as plain values."""
        return {**self.name.record(KEYS), "anew": self.of, "sent": list(self.people)}

    @classmethod
    def read(cls, reader: Reader, record: Mapping[str, Any]) -> Self:
        """Inverse of :meth:`record`; raises MessageRefused."""
        of = record.get("anew")
        if not isinstance(of, bytes) or len(of) != SESSION_BYTES:
            raise reader.refuse("secure sum: anew", type(of).__name__, f"{SESSION_BYTES} bytes")
        return cls(reader.name(record), of, reader.names(record, "sent"))

    @property
    def digest(self) -> str:
        """A hash of what all of a group are told of it."""
        return digest({"of": self.of, "people": sorted(self.people)})


@dataclass
class LastSum:
    """The sum that a person opened last, as it is needed where that sum is made anew.

    Parameters
    ----------
    run, method, round, session : of the sum; bytes in hexadecimal, as all here.
    vector : hash of the person's vector in it.
    once : what the vector says, if it stays the same from round to round.
    smallest : people of a group at least, as the plan said to all; 0: it is not made anew.
    sent, silent : of the person and its neighbours, who was in it and who was not.
    seen : by a roster, all who were in it; [] without one.
    """

    run: str = ""
    method: str = ""
    round: int = 0
    session: str = ""
    vector: str = ""
    once: str = ""
    smallest: int = 0
    sent: list[str] = field(default_factory=list)
    silent: list[str] = field(default_factory=list)
    seen: list[str] = field(default_factory=list)

    def group_of(self, reader: Reader, asked: Regrouping, least: int) -> list[str]:
        """Return the group in which a person adds its vector again, the person among it.

        Raises MessageRefused if it is of another sum than the one that the person opened last, or
        of other people; if that sum is not made anew; or if the group is of fewer people than
        `least`.
        """
        client, name = reader.client, asked.name
        said = name.run, name.method, name.round, asked.of.hex()
        if said != (self.run, self.method, self.round, self.session):
            got = f"one in place of sum {said[3][:16]}..., round {name.round}"
            expected = f"of the sum that it opened last, {self.session[:16] or 'none'}"
            raise self._refuse(reader, got, expected)
        if self.smallest < least:
            got = f"groups of {self.smallest}" if self.smallest else "groups of which no plan spoke"
            raise self._refuse(reader, got, f"{least} people at least, as the sum's plan says")
        known = {*self.sent, *self.silent}
        wrong = set(asked.people) & known != set(self.sent)
        if wrong or (self.seen and sorted(asked.people) != self.seen):
            got = f"{len(asked.people)} people: {', '.join(sorted(asked.people))}"
            expected = f"the {len(self.seen or self.sent)} with whom it opened that sum"
            raise self._refuse(reader, got, expected if self.seen else f"{expected}, at least")
        parted = groups_of(asked.people, self.run, self.method, self.smallest)
        (own,) = (group for group in parted if client in group)
        if len(parted) < 2:
            got = f"one group of {len(asked.people)} people"
            raise self._refuse(reader, got, f"{2 * self.smallest} people or more")
        return list(own)

    @staticmethod
    def _refuse(reader: Reader, got: object, expected: object) -> MessageRefused:
        return reader.refuse("secure sum: groups", got, expected)
