"""The secrets that a person keeps: of one secure sum, and of sums opened before, with whom."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Self

from fedsub_core.secure.keys import KEY_BYTES, commitment, public_of
from fedsub_core.secure.messages import Keys, Name
from fedsub_core.secure.opened_sums import OpenedSum, OpenedSums
from fedsub_core.secure.reader import Reader
from fedsub_core.secure.regrouping import LastSum
from fedsub_core.secure.shamir import Entropy

#: What stays of one sum when the next begins.
_REMEMBERED = (
    "sent", "silent", "answer", "answered", "opened", "opened_run", "opened_of", "rounds", "last",
    "lost", "regroupable",
)  # fmt: skip


@dataclass
class Secrets:
    """The secrets of the sum that a person takes part in, and the memory of those it opened.

    Values are bytes in hexadecimal, so that they can be written down as they are.

    Parameters
    ----------
    run, round, session : of the sum.
    seal, mask, seed : its private keys, and its self mask's seed.
    keys : of its neighbours, :meth:`Keys.joined`.
    people, listed : how many there are in all, and a hash of the list of these.
    shares : of its neighbours' and its own secrets, those of the pair key and of the seed.
    sealed : its answer to the question for shares, by neighbour.
    plan : a hash of what the plan of the sum tells everybody.
    masked, vector : with whom its vector was masked, and a hash of it.
    transcript : a hash of all that it was told with which its vector was masked.
    named : by a roster, all people of the sum.
    view, seen : a signed hash of who of all sent a vector and who did not; who did.
    once : name of the vector if it stays the same from round to round.
    sent, silent, answer : of the sum that it opened last: who was in it, and what it answered.
    answered : the session of that.
    opened, opened_run, opened_of : the last round that it opened, of which run and people.
    rounds : of that run's sums of models: by round, a hash of its vector and of the people.
    last : those of the last round that it opened.
    lost : the run of which it no longer knows what it helped to open; None: there is none.
    method, smallest : of the sum; :class:`~fedsub_core.secure.messages.Plan`'s.
    group, asked : all people of a group's sum, and a hash of what they were asked; [] of others.
    regroupable : the sum that it opened last, but for those of groups.
    """

    run: str = ""
    round: int = 0
    session: str = ""
    seal: str = ""
    mask: str = ""
    seed: str = ""
    keys: dict[str, str] = field(default_factory=dict)
    people: int = 0
    listed: str = ""
    plan: str = ""
    shares: dict[str, tuple[str, str]] = field(default_factory=dict)
    sealed: dict[str, str] = field(default_factory=dict)
    masked: list[str] = field(default_factory=list)
    vector: str = ""
    transcript: str = ""
    named: list[str] = field(default_factory=list)
    view: str = ""
    seen: list[str] = field(default_factory=list)
    once: str = ""
    sent: list[str] = field(default_factory=list)
    silent: list[str] = field(default_factory=list)
    answer: dict[str, str] = field(default_factory=dict)
    answered: str = ""
    opened: int = 0
    opened_run: str = ""
    opened_of: list[str] = field(default_factory=list)
    rounds: dict[str, str] = field(default_factory=dict)
    last: list[dict[str, Any]] = field(default_factory=list)
    lost: str | None = None
    method: str = ""
    smallest: int = 0
    group: list[str] = field(default_factory=list)
    asked: str = ""
    regroupable: LastSum = field(default_factory=LastSum)

    @classmethod
    def read(cls, kept: bytes) -> Self:
        """Inverse of :meth:`written`; raises ValueError if damaged or of another release."""
        try:
            found = json.loads(kept)
            # Earlier releases opened nothing before the first round.
            found.setdefault("opened_of", found.get("sent", []))
            # What they said once, :func:`opened_before` reads.
            found.pop("told", None)
            regroupable = LastSum(**found.pop("regroupable", {}))
            return cls(**found, regroupable=regroupable)
        except (AttributeError, TypeError) as error:
            raise ValueError(f"kept: {error}") from None

    def written(self) -> bytes:
        """Return the secrets as bytes."""
        return json.dumps(asdict(self)).encode()

    def next_sum(self, name: Name, entropy: Entropy) -> Self:
        """Return fresh secrets for another sum, with what is remembered of those opened."""
        seal, mask, seed = (entropy(KEY_BYTES).hex() for _ in range(3))
        session = name.session.hex()
        fresh = type(self)(name.run, name.round, session, seal, mask, seed, method=name.method)
        return replace(fresh, **{name: getattr(self, name) for name in _REMEMBERED})

    def taken_part(self, run: str) -> bool:
        """Return whether a vector of a run was sent, or may have been."""
        sending = bool(self.vector) and self.run == run
        opened = bool(self.opened) and self.opened_run == run
        return sending or opened or run == self.lost

    def public(self) -> Keys:
        """Return the public keys, and the commitment to the seed."""
        seal, mask, seed = (bytes.fromhex(one) for one in (self.seal, self.mask, self.seed))
        return Keys(public_of(seal), public_of(mask), commitment(seed))

    def opening(self, sent: list[str], silent: list[str]) -> None:
        """Keep what opens the sum of those who sent; forget the rest.

        Nobody who finds it later shall open more.
        """
        self.answer = {c: self.shares[c][1] for c in sent} | {c: self.shares[c][0] for c in silent}
        self.sent, self.silent, self.answered = sent, silent, self.session
        if not self.group:
            self.regroupable = LastSum(
                *(self.run, self.method, self.round, self.session, self.vector, self.once),
                *(self.smallest, sent, silent, self.seen),
            )
            if self.round and (self.opened_run != self.run or self.round >= self.opened):
                self.opened_run, self.opened, self.opened_of = self.run, self.round, sent
        self.seal = self.mask = self.seed = ""
        self.shares, self.sealed = {}, {}

    # What a person goes by.

    def demand(self, reader: Reader, name: Name) -> None:
        """Refuse a message of another sum."""
        if (name.run, name.round, name.session.hex()) != (self.run, self.round, self.session):
            expected = f"the one whose keys it showed last, round {self.round}"
            raise reader.refuse("secure sum", f"another sum of round {name.round}", expected)

    def demand_closed(self, reader: Reader, name: Name) -> None:
        """Refuse a message of a sum that was opened."""
        if name.session.hex() == self.answered:
            raise reader.refuse("secure sum", "a sum that it opened", "one that is not open")

    def demand_known(self, reader: Reader, once: str) -> None:
        """Refuse a sum of what stays the same in a run of which it is lost what was opened."""
        if self.run == self.lost:
            expected = "none of this run: with whom it was opened, this device no longer knows"
            what = f"secure sum: {once} again"
            raise reader.refuse(what, f"a plan of round {self.round}", expected)

    def demand_forward(self, reader: Reader, new: OpenedSum) -> None:
        """Refuse a sum of models of a round before the last, and another one of the last.

        A round before may be opened as it was. Another sum of the last one may be of other people
        as :class:`OpenedSums` has it.
        """
        if self.opened_run != self.run:
            self.rounds, self.last = {}, []
        elif new.round < self.opened:
            if self.rounds.get(str(new.round)) == new.people:
                return
            got = f"round {new.round}, of {sorted(new.sent)}"
            expected = f"one after round {self.opened}, which it has opened, or the same as then"
            raise reader.refuse("secure sum: rounds", got, expected)
        elif new.round > self.opened:
            self.last = []
        again = replace(new, vector="")
        if fault := OpenedSums(OpenedSum(**one) for one in self.last).fault(again):
            raise reader.refuse(f"secure sum: round {new.round} again", *fault)
        if not self.group:
            self.rounds[str(new.round)] = new.people
        self.last.append(asdict(again))
