"""Attendance: how often people are there and answer, and who is drawn by it."""

from __future__ import annotations

import json
import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

#: Prefix of what is kept of it in the server's state.
ATTENDANCE = "attendance."
#: Groups of people by the share of rounds at whose beginning they were there: below a third, below
#: two thirds, and the others.
RARELY, SOMETIMES, MOSTLY = GROUPS = ("rarely", "sometimes", "mostly")


@dataclass
class Attendance:
    """The attendance of everybody, in rounds since each was first there.

    Parameters
    ----------
    first : the round in which each client was first there.
    there, asked, answered : in how many it was there, was asked, and sent a usable upload.
    """

    first: dict[str, int] = field(default_factory=dict)
    there: dict[str, int] = field(default_factory=dict)
    asked: dict[str, int] = field(default_factory=dict)
    answered: dict[str, int] = field(default_factory=dict)

    def note(
        self, round: int, there: Iterable[str], asked: Iterable[str], answered: Iterable[str]
    ) -> None:
        """Note who was there in a round, and of those who was asked and answered."""
        for client in there:
            self.first.setdefault(client, round)
            self.there[client] = self.there.get(client, 0) + 1
        for counts, clients in ((self.asked, asked), (self.answered, answered)):
            for client in clients:
                counts[client] = counts.get(client, 0) + 1

    def forget(self, client: str) -> None:
        """Forget a client."""
        for counts in (self.first, self.there, self.asked, self.answered):
            counts.pop(client, None)

    def group(self, client: str, round: int) -> str:
        """Return the group of a client before a round; somebody new is mostly there."""
        rounds = round - self.first.get(client, round)
        share = self.there.get(client, 0) / rounds if rounds > 0 else 1.0
        return GROUPS[min(int(3 * share), 2)]

    def likely(self, client: str) -> float:
        """Return how likely a client answers: its share of answers, with one of two before."""
        return (self.answered.get(client, 0) + 1) / (self.asked.get(client, 0) + 2)

    def drawn(
        self,
        clients: Sequence[str],
        count: int,
        round: int,
        seed: int,
        groups: bool,
        time: Mapping[str, float] | None = None,
    ) -> list[str]:
        """Draw clients who are there, ascending: the likelier an answer, the more often.

        Parameters
        ----------
        groups : whether each group gets the share of `count` that it is of all people, as far as
            its people are there; the rest is drawn of all.
        time : share of a round's time that each client has; None: all of it.
        """
        stream, of = np.random.default_rng(seed), time or {}
        # The largest of u ** (1 / weight) is a weighted draw without replacement.
        keys = {c: math.log(stream.random()) / (self.likely(c) * of.get(c, 1.0)) for c in clients}
        order = sorted(clients, key=lambda client: (-keys[client], client))
        chosen: list[str] = []
        for group, share in self._shares(clients, round).items() if groups else ():
            own = [client for client in order if self.group(client, round) == group]
            chosen += own[: math.floor(share * count)]
        taken = set(chosen)
        chosen += [client for client in order if client not in taken][: count - len(chosen)]
        return sorted(chosen)

    def _shares(self, clients: Collection[str], round: int) -> dict[str, float]:
        """Return the share that each group is of all people."""
        everybody = sorted({*self.first, *clients})
        of = [self.group(client, round) for client in everybody]
        return {group: of.count(group) / len(of) for group in GROUPS}

    def tensors(self) -> dict[str, Tensor]:
        """Return the attendance as plain named tensors, for the server's state; none of nobody."""
        if not self.first:
            return {}
        kept = json.dumps(vars(self), sort_keys=True).encode()
        return {f"{ATTENDANCE}counts": torch.frombuffer(bytearray(kept), dtype=torch.uint8)}

    @classmethod
    def of(cls, tensors: Mapping[str, Tensor]) -> Attendance:
        """Return the attendance in tensors: the inverse of :meth:`tensors`."""
        if f"{ATTENDANCE}counts" not in tensors:
            return cls()
        return cls(**json.loads(bytes(tensors[f"{ATTENDANCE}counts"].tolist())))
