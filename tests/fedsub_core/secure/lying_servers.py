"""Servers of secure sums that lie, and what they read of one person, :data:`VICTIM`.

Each gets people with a roster, or without one, and returns the vector that it reads.
"""

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager

import numpy as np

from fedsub_core.errors import MessageRefused
from fedsub_core.secure.keys import (
    Words,
    agreed,
    commitment,
    expanded,
    private_key,
    public_of,
    seal,
    unseal,
)
from fedsub_core.secure.messages import Keys, Plan, Unmask
from fedsub_core.secure.opening import CannotOpen
from fedsub_core.secure.participant import between
from fedsub_core.secure.reader import Reader
from fedsub_core.secure.shamir import SHARE_BYTES, value_at
from fedsub_core.secure.signed_sums import said_of_view, view_of

from .people import LEVELS, Sum

VICTIM = "p000"


def found(
    one: Sum, victim: str, helping: Collection[str], refusals: list[MessageRefused]
) -> tuple[dict[int, bytes], ...]:
    """Return the shares of a victim's two secrets that a server gets by two lists.

    It tells half of the people that the victim sent its vector, and the others that it did not.
    Those who help sign whatever it likes, and give all shares that they hold.
    """
    place = {client: i for i, client in enumerate(sorted(one.people), 1)}
    name, shares = one.server.name, (dict[int, bytes](), dict[int, bytes]())
    for client in helping:
        for own, share in zip(shares, one.people[client]._own.shares[victim], strict=True):
            own[place[client]] = bytes.fromhex(share)
    for own, group, silent in zip(
        shares[::-1], halves(one, victim, helping), ([], [victim]), strict=True
    ):
        sent = tuple(sorted(one.people.keys() - set(silent)))
        question, views = Unmask(name, sent, tuple(silent)), dict[str, bytes]()
        for client in group if one.signers else ():
            said = one.people[client].answer(question.record("view"), 1)
            views[client] = said["view"] + said["signature"]
        for client in helping if one.signers else ():
            view = view_of(one.people[victim]._own.transcript, sent, silent)
            signature = one.signers[client].sign(said_of_view(name, view))
            views[client] = bytes.fromhex(view) + signature
        for client in group:
            others = {c: v for c, v in views.items() if c != client}
            question = Unmask(name, sent, tuple(silent), others)
            try:
                told = one.people[client].answer(question.record(), 1)
            except MessageRefused as error:
                refusals.append(error)
                continue
            own[place[client]] = dict(zip(told["clients"], told["values"], strict=True))[victim]
    return shares


def halves(one: Sum, victim: str, helping: Collection[str]) -> tuple[list[str], list[str]]:
    """Return two groups of those who do not help the server, with the victim in the first."""
    others = sorted(one.people.keys() - {victim, *helping})
    half = (len(others) - 1) // 2
    return [victim, *others[:half]], others[half:]


def split_view(signed: bool) -> Words:
    """Tell two groups of ten different lists, with two devices that help."""
    one = Sum(10, signed=signed)
    for step in (one.keys, one.shares, one.vectors):
        step()
    refusals: list[MessageRefused] = []
    mask, seed = found(one, VICTIM, ["p008", "p009"], refusals)
    if refusals:
        raise refusals[0]
    private, own = private_key(value_at(mask, 0)[1:]), one.people[VICTIM]._own
    vector = one.y[VICTIM] - expanded(value_at(seed, 0)[1:], len(one.y[VICTIM]))
    for other in own.masked:
        shown_key = Keys.of(bytes.fromhex(own.keys[other])).mask
        purpose = between(own.session, VICTIM, other, own.transcript)
        vector = vector - expanded(agreed(private, shown_key, purpose), len(vector))
    return as_of(one, vector)


def replaced_keys(signed: bool) -> Words:
    """Show one person keys of the server's own in place of everybody's."""
    one = Sum(6, signed=signed)
    one.keys()
    others = sorted(one.people.keys() - {VICTIM})
    secrets = {c: (bytes([i] * 32), bytes([i + 100] * 32)) for i, c in enumerate(others, 1)}
    foreign = {
        c: public_of(for_shares) + public_of(for_masks) + commitment(bytes(32))
        for c, (for_shares, for_masks) in secrets.items()
    }
    asked = one.server.ask_shares()[VICTIM] | {"values": list(foreign.values())}
    if signed:
        # With the signatures of the keys that they are in place of.
        asked["signed_keys"] = [
            foreign.get(c, keys[:96]) + keys[96:]
            for c, keys in zip(asked["signed"], asked["signed_keys"], strict=True)
        ]
    person, name, shown = one.people[VICTIM], one.server.name, one.server.keys[VICTIM]
    answer = person.answer(asked, 1)
    about, shares, sealed = f"fedsub shares {name.session.hex()} 1", {}, {}
    for place, (client, closed) in enumerate(
        zip(answer["clients"], answer["values"], strict=True), 2
    ):
        to, back = (f"{about} {a} {b}".encode() for a, b in ((VICTIM, client), (client, VICTIM)))
        shared = agreed(private_key(secrets[client][0]), shown.seal, to)
        shares[place] = unseal(shared, closed, to)[SHARE_BYTES:]
        shared = agreed(private_key(secrets[client][0]), shown.seal, back)
        sealed[client] = seal(shared, bytes(2 * SHARE_BYTES), back)
    person.accept(Reader(VICTIM, 1).plan(Plan(name, sealed, 1, 1).record()))
    vector = person.masked(one.x[VICTIM], name)
    vector = vector - expanded(value_at(shares, 0)[1:], len(vector))
    for client, (_, for_masks) in secrets.items():
        purpose = between(name.session.hex(), VICTIM, client, person._own.transcript)
        vector = vector - expanded(agreed(private_key(for_masks), shown.mask, purpose), len(vector))
    return as_of(one, vector)


def as_of(one: Sum, vector: Words) -> Words:
    """Return a vector less the victim's own: zeros where it was read."""
    left: Words = vector - one.x[VICTIM]
    return left


class Federation:
    """Eight people who remember the sums that a server opens of some of them."""

    def __init__(self, signed: bool, once: str = "") -> None:
        self.first, self.once, self.sums = Sum(8, signed=signed), once, 0
        self.refusals: list[MessageRefused] = []

    def opened(self, people: Sequence[int], round: int = 1, run: str = "run") -> Words:
        """Return the sum that opens without whoever refuses; zeros where it does not open."""
        self.sums += 1
        length = len(self.first.x[VICTIM])
        one = Sum(8, length, seed=self.sums, round=round, run=run, once=self.once)
        one.people = {name: self.first.people[name] for name in (f"p{i:03}" for i in people)}
        one.x = self.first.x
        for step in (one.keys, one.shares):
            step()
        for client in one.people:
            with self.noted():
                one.vectors(but=one.people.keys() - {client})
        for client, asked in one.server.ask_views().items():
            one.server.take_view(client, one.people[client].answer(asked, round))
        try:
            for client, question in one.server.ask_unmask().items():
                with self.noted():
                    answer = one.people[client].answer(question.record(), round)
                    one.server.take_unmasked(client, answer)
            return one.server.open()
        except CannotOpen:
            return np.zeros_like(one.x[VICTIM])

    @contextmanager
    def noted(self) -> Iterator[None]:
        """Note a refusal, and go on."""
        try:
            yield
        except MessageRefused as error:
            self.refusals.append(error)

    def read(self, vector: Words) -> Words:
        """Return a vector less the victim's; raises the first refusal where it is another."""
        left = as_of(self.first, vector)
        if left.any() and self.refusals:
            raise self.refusals[0]
        return left


def model_again(signed: bool, *rounds: int) -> Words:
    """Open sums of models of all, in some rounds, and the first round's without one person."""
    people = Federation(signed)
    first, *_ = (people.opened(range(8), round) for round in rounds)
    return people.read(first - people.opened(range(1, 8), rounds[0]))


def another_name(signed: bool) -> Words:
    """Open a sum of statistics of all, and in another run's name one without one person."""
    people = Federation(signed, "statistics")
    first = people.opened(range(8))
    return people.read(first - people.opened(range(1, 8), 3, "another"))


def one_more(signed: bool) -> Words:
    """Open a sum of statistics, and in another run's name one of one person more."""
    people = Federation(signed, "statistics")
    first = people.opened(range(1, 8))
    return people.read(people.opened(range(8), 3, "another") - first)


def through_one(signed: bool) -> Words:
    """Open sums that have one person in common, each of four, and one of all these people."""
    people = Federation(signed, "statistics")
    one, two = people.opened([0, 1, 2, 3], 1, "a"), people.opened([0, 4, 5, 6], 2, "b")
    return people.read(one + two - people.opened(range(7), 3, "c"))


def all_others_apart(signed: bool) -> Words:
    """Open sums of three and of three others, each in a run, and one of these and the victim."""
    people = Federation(signed, "statistics")
    one, two = people.opened([1, 2, 3], 1, "a"), people.opened([4, 5, 6], 2, "b")
    return people.read(people.opened(range(7), 3, "c") - one - two)


def wrong_vector(signed: bool) -> Words:
    """Let one device add another vector than its own; the server sees what the sum says."""
    one = Sum(6, signed=signed)
    changes = np.random.default_rng(0).uniform(-1, 1, (6, 5))
    one.x = {c: LEVELS.vector(x, 1) for c, x in zip(one.people, changes, strict=True)}
    for step in (one.keys, one.shares):
        step()
    one.x["p001"] = one.x["p001"] - np.uint32(2)
    one.vectors()
    LEVELS.total(one.unmask(), 6)
    return as_of(one, one.plain())


Attack = Callable[[bool], Words]
