"""People of one sum, and a server that asks them in order."""

from collections.abc import Callable, Collection, Sequence
from typing import Any

import numpy as np
from cryptography.hazmat.primitives.asymmetric import ec

from fedsub_core.secure.keys import Words
from fedsub_core.secure.messages import Plan, Record
from fedsub_core.secure.participant import Participant
from fedsub_core.secure.quantise import Levels
from fedsub_core.secure.reader import Reader
from fedsub_core.secure.roster import Roster, Signer, public_of
from fedsub_core.secure.summation import Summation
from fedsub_core.secure.transcript import Origin

LEVELS = Levels(1.0, 1, 1)
Change = Callable[[str, Record], Record]


def signing_key(number: int) -> ec.EllipticCurvePrivateKey:
    """Return a private key of a number."""
    return ec.derive_private_key(number, ec.SECP384R1())


#: Of a roster.
OWNER = signing_key(2**64)


def signers(names: Sequence[str]) -> dict[str, Signer]:
    """Return who signs, with a roster of all of them."""
    own = {name: signing_key(i) for i, name in enumerate(names, 1)}
    roster = Roster({name: public_of(key) for name, key in own.items()})
    return {name: Signer(name, key, roster) for name, key in own.items()}


class Sum:
    """One sum of random vectors `x`, whose phases some people leave.

    Parameters
    ----------
    once : what the vectors say that is said once.
    signed : whether people go by a roster.
    """

    def __init__(
        self,
        people: int = 5,
        length: int = 7,
        least: int = 3,
        seed: int = 0,
        round: int = 1,
        run: str = "run",
        once: str = "",
        signed: bool = False,
    ) -> None:
        stream = np.random.default_rng(seed)
        names = [f"p{i:03}" for i in range(people)]
        self.signers = signers(names) if signed else {}
        self.people = {
            name: Participant(name, least, entropy=stream.bytes, signer=self.signers.get(name))
            for name in names
        }
        self.x = {c: stream.integers(0, 2**32, length, np.uint32) for c in self.people}
        self.y: dict[str, Words] = {}
        self.plans: dict[str, Plan] = {}
        self.server = Summation(round, least, length, run, "fedavg", stream.bytes)
        self.round, self.once = round, once
        #: All that the server was ever told, in order.
        self.told: list[Any] = []

    def keys(self, but: Collection[str] = ()) -> None:
        """Let everybody show keys."""
        for client in self.people.keys() - set(but):
            answer = self.people[client].answer(self.server.ask_keys(), self.round)
            self.told.append(answer)
            self.server.take_keys(client, answer)

    def shares(self, but: Collection[str] = ()) -> None:
        """Let everybody who showed keys share its secrets."""
        for client, asked in self.server.ask_shares().items():
            if client not in but:
                answer = self.people[client].answer(asked, self.round)
                self.told.append(answer)
                self.server.take_shares(client, answer)

    def vectors(self, but: Collection[str] = ()) -> None:
        """Let everybody who shared send its vector."""
        self.plans = self.server.plans(LEVELS)
        for client, plan in self.plans.items():
            if client not in but:
                came = Reader(client, self.round).plan(plan.record())
                self.people[client].accept(came)
                self.y[client] = self.people[client].masked(
                    self.x[client], came.name, Origin(self.once)
                )
                self.told.append(self.y[client])
                self.server.take_vector(client, self.y[client])

    def unmask(self, but: Collection[str] = (), change: Change = lambda c, r: r) -> Words:
        """Let those who sent a vector open the sum; return it."""
        for client, question in self.server.ask_views().items():
            if client not in but:
                seen = self.people[client].answer(question, self.round)
                self.server.take_view(client, seen)
        for client, asked in self.server.ask_unmask().items():
            if client not in but:
                answer = change(client, self.people[client].answer(asked.record(), self.round))
                self.told.append(answer)
                self.server.take_unmasked(client, answer)
        return self.server.open()

    def plain(self) -> Words:
        """Return the sum of the vectors of those who sent one."""
        zero = np.zeros_like(next(iter(self.x.values())))
        return sum((self.x[c] for c in self.server.sent), zero)
