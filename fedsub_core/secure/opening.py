"""The opening of a sum: the shares that came of people's secrets, some of which may be wrong."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random

from fedsub_core.errors import cut
from fedsub_core.secure.graph import threshold
from fedsub_core.secure.shamir import value_at

#: Choices of shares that are tried where some are wrong: of l wrong ones each choice, of more than
#: half of the shares, has a chance of 1 in 2**l or so.
TRIES = 200
#: Returns what a person shows of a secret: a public key, or a commitment.
Shows = Callable[[bytes], bytes]


class CannotOpen(Exception):
    """A sum whose masks cannot be taken off: it says whose, and what lacks."""


@dataclass(eq=False)
class Opening:
    """The shares that came, and what their senders were told.

    Parameters
    ----------
    round : that the sum is of.
    shares : by whom they came, and of whose secrets they are.
    told : what those who open it were told, as a hash.
    wrong : whose shares did not fit the others', of whose secret.
    """

    round: int
    shares: dict[str, Mapping[str, bytes]] = field(default_factory=dict)
    told: dict[str, str] = field(default_factory=dict)
    wrong: set[tuple[str, str]] = field(default_factory=set)

    def told_all(self) -> str:
        """Return the transcript of those who open the sum; raises CannotOpen if they differ."""
        ((told, many), *others) = Counter(self.told.values()).most_common() or [("", 0)]
        if others:
            who = sorted(client for client, own in self.told.items() if own != told)
            raise CannotOpen(
                f"round {self.round}: what it is of: {cut(', '.join(who))} were told "
                f"something else than {many} others, expected the same of all"
            )
        return told

    def secret(
        self, client: str, what: str, holders: Sequence[str], shows: Shows, shown: bytes
    ) -> bytes:
        """Return somebody's secret of the shares that came.

        Parameters
        ----------
        holders : whom shares were dealt to, ascending.
        shows, shown : what the secret leads to, and what its owner showed of it.

        Raises CannotOpen if too few shares came that fit each other.
        """
        needed = threshold(len(holders))
        came = {
            place: self.shares[holder][client]
            for place, holder in enumerate(holders, 1)
            if client in self.shares.get(holder, ())
        }
        for attempt in range(TRIES if len(came) >= needed else 0):
            places = Random(attempt).sample(list(came), needed) if attempt else list(came)[:needed]
            some = {place: came[place] for place in places}
            try:
                value = value_at(some, 0)
            except ValueError:
                continue
            if value[0] == 0 and shows(value[1:]) == shown:
                # Which ones are wrong takes as long as all else: only where some are.
                for place, share in came.items() if attempt else ():
                    if value_at(some, place) != share:
                        self.wrong.add((holders[place - 1], client))
                return value[1:]
        raise CannotOpen(
            f"round {self.round}: the {what} of client {client!r}: got {len(came)} shares of "
            f"{len(holders)}, expected {needed} that fit each other"
        )
