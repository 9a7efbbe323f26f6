"""One person's side of secure aggregation (Bonawitz et al. 2017, figure 4, the user's part).

It answers in order: its keys, its shares for its neighbours, its masked vector, and once the shares
that open the sum. It goes by nothing that the server says without checking it against what it
knows: whose keys it saw, how few people a sum may be of, and what it answered before. Whose keys
these are it knows by a roster alone.
"""

from __future__ import annotations

import secrets
from collections.abc import Collection, Mapping
from typing import Any

from fedsub_core.secure.graph import threshold
from fedsub_core.secure.kept_secrets import Secrets
from fedsub_core.secure.keys import (
    KEY_BYTES,
    Words,
    agreed,
    expanded,
    hash_of,
    private_key,
    seal,
    unseal,
)
from fedsub_core.secure.messages import (
    KEYS,
    SHARES,
    UNMASK,
    VIEW,
    Keys,
    Name,
    Plan,
    Record,
    by_client,
)
from fedsub_core.secure.opened_sums import OpenedSum, OpenedSums
from fedsub_core.secure.people_list import PeopleList, leaf
from fedsub_core.secure.reader import Reader
from fedsub_core.secure.regrouping import Regrouping
from fedsub_core.secure.roster import Signer
from fedsub_core.secure.shamir import SHARE_BYTES, Entropy, split
from fedsub_core.secure.signed_sums import (
    demand_one_view,
    said_of_keys,
    said_of_view,
    signed_keys,
    view_of,
)
from fedsub_core.secure.transcript import Origin, digest

#: Of a vector of which nothing is known but its numbers.
NUMBERS_ALONE = Origin()


class Participant:
    """A person who takes part in sums, one at a time.

    Parameters
    ----------
    least : people in a sum at least, itself among them.
    kept : what an earlier process kept (:meth:`kept`); None: nothing.
    entropy : see :data:`Entropy`.
    lost : a run of which what it kept is lost.
    opened : the sums that it opened in any run, which it adds to.
    signer : signs what it shows, and knows whose the others' keys are; None: without a roster.

    Raises ValueError if what was kept is damaged, or of another release.
    """

    def __init__(
        self,
        client: str,
        least: int,
        kept: bytes | None = None,
        entropy: Entropy = secrets.token_bytes,
        lost: str | None = None,
        opened: OpenedSums | None = None,
        signer: Signer | None = None,
    ) -> None:
        self.client, self.least, self._entropy = client, least, entropy
        self._signer, self.opened = signer, opened or OpenedSums()
        #: What is to be kept of the last message, to check the server's transcript by.
        self.receipt: Record = {}
        self._head = b""
        try:
            self._own = Secrets(lost=lost) if kept is None else Secrets.read(kept)
        except ValueError as error:
            raise ValueError(f"{client!r}: {error}") from None

    def kept(self) -> bytes:
        """Return all that it keeps, secrets among it."""
        return self._own.written()

    @property
    def people(self) -> int:
        """The number of people in the list of the sum that it was shown."""
        return self._own.people

    def took_part(self, run: str) -> bool:
        """Return whether it sent a vector of a run, or may have."""
        return self._own.taken_part(run) or self.opened.of_run(run)

    def answer(self, record: Mapping[str, Any], round: int) -> Record:
        """Answer a question about a round's sum.

        Raises MessageRefused if it is none that this person may answer.
        """
        reader, phase = Reader(self.client, round), record.get("phase")
        name = reader.name(record)
        if phase == KEYS:
            return self._show_keys(reader, record)
        works = {SHARES: self._share, UNMASK: self._unmask, VIEW: self._see}
        if phase not in works or (phase == VIEW and self._signer is None):
            expected = f"{KEYS}, {SHARES} or {UNMASK}; {VIEW} with a roster"
            raise reader.refuse("secure sum", repr(phase), expected)
        self._own.demand(reader, name)
        if phase == SHARES:
            self._own.demand_closed(reader, name)
        return works[phase](reader, record)

    def accept(self, plan: Plan) -> None:
        """Take in the shares that neighbours sealed; from now on these are whom it masks with.

        Raises MessageRefused if the neighbours are too few, or others than before, or a share is
        not one that its sender made for it.
        """
        own, reader = self._own, Reader(self.client, plan.name.round)
        own.demand(reader, plan.name)
        own.demand_closed(reader, plan.name)
        if not own.sealed:
            raise reader.refuse("secure sum", "a plan", "a question for shares before it")
        if strangers := sorted(plan.sealed.keys() - own.keys.keys()):
            raise reader.refuse("secure sum: shares", f"those of {strangers}", sorted(own.keys))
        self._demand_people(reader, len(plan.sealed) + 1)
        # One vector under several sets of masks would tell of it.
        if own.masked and own.masked != sorted(plan.sealed):
            raise reader.refuse("secure sum: neighbours", sorted(plan.sealed), own.masked)
        if own.masked and own.plan != plan.told:
            raise reader.refuse("secure sum: plan", "another than before", "the same")
        private = private_key(bytes.fromhex(own.seal))
        for other, sealed in plan.sealed.items():
            keys, about = Keys.of(bytes.fromhex(own.keys[other])), self._about(other, self.client)
            try:
                shares = unseal(agreed(private, keys.seal, about), sealed, about)
            except ValueError as error:
                raise reader.refuse(f"secure sum: shares of {other!r}", error, "its own") from None
            own.shares[other] = shares[:SHARE_BYTES].hex(), shares[SHARE_BYTES:].hex()
        if own.group and len(plan.sealed) < len(own.keys):
            gone = sorted(own.keys.keys() - plan.sealed.keys())
            raise reader.refuse("secure sum: groups", f"a plan without {gone}", "the whole group")
        own.masked, own.plan, own.smallest = sorted(plan.sealed), plan.told, plan.smallest
        self._head = plan.head

    def masked(self, vector: Words, name: Name, origin: Origin = NUMBERS_ALONE) -> Words:
        """Return its vector under its own mask and those that it shares with neighbours.

        Raises MessageRefused if it is another vector than before, or was made of something else,
        which would tell of both; if it has been in an opened sum of other people; if it was made as
        if this person had not been in a sum that it was in; or if somebody's key is none.
        """
        own, reader = self._own, Reader(self.client, name.round)
        own.demand(reader, name)
        own.demand_closed(reader, name)
        hashed = hash_of(vector)
        if own.vector not in ("", hashed):
            raise reader.refuse("secure sum: vector", "another than before", "the same")
        if origin.outside and (own.opened_run, own.opened) == (own.run, origin.outside):
            got = f"a download as if it had not been in the sum of round {origin.outside}"
            raise reader.refuse("secure sum", got, f"one as to the others of {own.opened_of}")
        if own.group and hashed != own.regroupable.vector:
            expected = "the one of the sum that is made anew"
            raise reader.refuse("secure sum: vector", "another vector", expected)
        once = self._once(reader, origin, hashed)
        about = {"made_of": origin.made_of, "people": own.listed, "plan": own.plan}
        told = digest(about | ({"group": own.asked} if own.group else {}))
        if own.transcript not in ("", told):
            raise reader.refuse("secure sum: told", "something else than before", "the same")
        own.once = own.once or once
        own.vector, own.transcript = hashed, told
        total = vector + expanded(bytes.fromhex(own.seed), len(vector))
        private = private_key(bytes.fromhex(own.mask))
        for other in own.masked:
            shown = Keys.of(bytes.fromhex(own.keys[other])).mask
            try:
                pair = agreed(private, shown, between(own.session, self.client, other, told))
            except ValueError as error:
                raise reader.refuse(f"secure sum: keys of {other!r}", error, "a key") from None
            mask = expanded(pair, len(vector))
            total = total + mask if self.client < other else total - mask
        self.receipt = {
            "session": own.session,
            "round": own.round,
            "head": self._head.hex(),
            "plan": own.plan,
            "people": own.listed,
            "transcript": told,
            "leaf": leaf(self.client, own.public().joined()).hex(),
            "vector": hash_of(total),
            "numbers": len(total),
            "once": once,
            "least": self.least,
        }
        return total

    # The questions.

    def _show_keys(self, reader: Reader, record: Mapping[str, Any]) -> Record:
        own, name = self._own, reader.name(record)
        own.demand_closed(reader, name)
        group, asked = list[str](), ""
        if "anew" in record:
            regrouping = Regrouping.read(reader, record)
            group = own.regroupable.group_of(reader, regrouping, self.least)
            asked = regrouping.digest
        if name.session.hex() != own.session:
            self._own = own.next_sum(name, self._entropy)
            self._own.group, self._own.asked = group, asked
        elif asked != own.asked:
            raise reader.refuse("secure sum: groups", "another question than before", "the same")
        joined = self._own.public().joined()
        if self._signer is None:
            return {"keys": joined}
        return {"keys": joined, "signature": self._signer.sign(said_of_keys(name, joined))}

    def _share(self, reader: Reader, record: Mapping[str, Any]) -> Record:
        own = self._own
        shown = reader.values(record, 3 * KEY_BYTES)
        leaves = reader.people(record)
        if self._signer is not None:
            joined = own.public().joined()
            every_key = signed_keys(self._signer, reader, record, shown, joined)
            leaves, own.named = list(PeopleList.of(every_key).leaves), sorted(every_key)
        if own.sealed:
            same = {c: keys.hex() for c, keys in shown.items()} == own.keys
            if not same or (leaves and PeopleList(leaves).digest != own.listed):
                # Who shares twice gives away more than it meant to.
                raise reader.refuse("secure sum: keys", "others than before", "the same")
            return by_client({c: bytes.fromhex(s) for c, s in own.sealed.items()})
        if self.client in shown:
            raise reader.refuse("secure sum: clients", f"{self.client!r}", "its neighbours alone")
        keys = {client: Keys.of(joined) for client, joined in shown.items()}
        every = [self._own.public(), *keys.values()]
        if len({k.seal for k in every} | {k.mask for k in every}) < 2 * len(every):
            raise reader.refuse("secure sum: keys", "one key twice", "each client's own")
        holders = sorted([self.client, *keys])
        self._demand_people(reader, len(holders))
        known = [leaf(self.client, own.public().joined()), *(leaf(*one) for one in shown.items())]
        listed = PeopleList(leaves or sorted(known))
        if fault := listed.fault(known):
            raise reader.refuse("secure sum: people", *fault)
        if own.group and (len(listed.leaves) < len(own.group) or {*holders} - {*own.group}):
            got = f"keys of {len(listed.leaves)} people, {', '.join(holders)} near it"
            raise reader.refuse("secure sum: groups", got, f"those of {', '.join(own.group)}")
        own.people, own.listed = len(listed.leaves), listed.digest
        needed = threshold(len(holders))
        split_up = [
            split(bytes.fromhex(secret), needed, len(holders), self._entropy)
            for secret in (own.mask, own.seed)
        ]
        private = private_key(bytes.fromhex(own.seal))
        for other, *shares in zip(holders, *split_up, strict=True):
            if other == self.client:
                own.shares[other] = shares[0].hex(), shares[1].hex()
                continue
            about = self._about(self.client, other)
            try:
                key = agreed(private, keys[other].seal, about)
            except ValueError as error:
                raise reader.refuse(f"secure sum: keys of {other!r}", error, "a key") from None
            own.sealed[other] = seal(key, b"".join(shares), about).hex()
        own.keys = {client: joined.hex() for client, joined in shown.items()}
        return by_client({c: bytes.fromhex(s) for c, s in own.sealed.items()})

    def _see(self, reader: Reader, record: Mapping[str, Any]) -> Record:
        """Sign what it is told of who sent a vector and who did not, of all people of the sum."""
        own, asked, signer = self._own, reader.unmask(record), self._signer
        assert signer is not None
        everybody = {self.client, *own.masked}
        sent, silent = (sorted(everybody & set(who)) for who in (asked.sent, asked.silent))
        if not own.masked or sorted(sent + silent) != sorted(everybody) or self.client not in sent:
            got = f"sent {sent}, silent {silent}"
            expected = f"{sorted(everybody)}, each once, it among sent"
            raise reader.refuse("secure sum: view", got, expected)
        if strangers := sorted({*asked.sent, *asked.silent} - set(own.named)):
            raise reader.refuse("secure sum: view", f"{strangers}", "people who showed keys")
        if own.group and sorted(asked.sent) != own.group:
            got = f"a group of which {', '.join(sorted(asked.sent))} sent"
            raise reader.refuse("secure sum: view", got, f"all of it: {', '.join(own.group)}")
        view = view_of(own.transcript, asked.sent, asked.silent)
        if own.view not in ("", view):
            # Who signs two lets two groups believe each that all saw the same.
            raise reader.refuse("secure sum: view", "another than before", "the same")
        own.view, own.seen = view, sorted(asked.sent)
        signature = signer.sign(said_of_view(asked.name, view))
        return {"view": bytes.fromhex(view), "signature": signature}

    def _unmask(self, reader: Reader, record: Mapping[str, Any]) -> Record:
        own, asked = self._own, reader.unmask(record)
        sent, silent = sorted(asked.sent), sorted(asked.silent)
        if own.group and silent:
            # What lacks in a group's sum follows from the others.
            got = f"a group without {', '.join(silent)}"
            raise reader.refuse("secure sum: unmask", got, "a whole group")
        if own.answered == own.session:
            if (sent, silent) != (own.sent, own.silent):
                raise reader.refuse(
                    "secure sum: unmask", "a second question with other people", "the first again"
                )
            return self._opens()
        everybody = sorted([self.client, *own.masked])
        if not own.masked or sorted([*sent, *silent]) != everybody or self.client not in sent:
            got = f"sent {sent}, silent {silent}"
            raise reader.refuse("secure sum: unmask", got, f"{everybody}, each once, it among sent")
        self._demand_people(reader, len(sent))
        if self._signer is not None:
            if not own.view or sent != sorted(set(own.seen) & set(everybody)):
                expected = "those of whom it signed that they sent"
                raise reader.refuse("secure sum: unmask", f"sent {sent}", expected)
            demand_one_view(self._signer, reader, asked, own.view, own.seen, own.people)
        if own.round < 1 and not own.once:
            # Of what is told once it is remembered with whom, of others by the round.
            raise reader.refuse("secure sum: unmask", f"round {own.round}", "1 or more")
        opening = self._sum_of(own.once, own.vector, own.seen if self._signer else sent, silent)
        if own.group and not opening.whole:
            pass  # of people whom it knows in part it cannot count how many groups differ by
        elif not own.once:
            own.demand_forward(reader, opening)
        elif fault := self.opened.fault(opening):
            raise reader.refuse(f"secure sum: {own.once} again", *fault)
        else:
            self.opened.add(opening)
        own.opening(sent, silent)
        self.receipt = {"session": own.session, "opened": True}
        return self._opens()

    def _opens(self) -> Record:
        """Return the answer that opens a sum: others' shares, and this person's transcript."""
        shares = {client: bytes.fromhex(share) for client, share in self._own.answer.items()}
        return by_client(shares) | {"told": bytes.fromhex(self._own.transcript)}

    # What it goes by.

    def _demand_people(self, reader: Reader, people: int) -> None:
        if people < self.least:
            raise reader.refuse("secure sum: people", people, f"{self.least} at least")

    def _once(self, reader: Reader, origin: Origin, hashed: str) -> str:
        """Return the name of a vector that stays the same; "": it changes.

        Raises MessageRefused if it was in opened sums from which the planned one differs by few
        people.
        """
        own, once = self._own, origin.once
        if own.group:  # whoever is in it was in the sum that is made anew
            return own.regroupable.once
        if once:
            own.demand_known(reader, once)
            there = own.named if self._signer else [self.client, *own.masked]
            planned = self._sum_of(once, hashed, set(there) - self._unshared())
            if fault := self.opened.fault(planned, True):
                raise reader.refuse(f"secure sum: {once} again", *fault)
        return once

    def _unshared(self) -> set[str]:
        """Return the neighbours who showed keys, and shared no secrets."""
        return set(self._own.keys) - set(self._own.masked)

    def _sum_of(
        self, once: str, vector: str, sent: Collection[str], silent: Collection[str] = ()
    ) -> OpenedSum:
        """Return the sum that it takes part in, of people who sent a vector or did not."""
        own = self._own
        # By a roster all people are known, without one those whose keys it was shown.
        whole = self._signer is not None or own.people == len(own.keys) + 1
        out = () if whole else tuple(sorted({*silent, *self._unshared()}))
        people = tuple(sorted(sent)), out, whole, self.least
        return OpenedSum(once or "models", own.run, own.round, vector, *people)

    def _about(self, sender: str, receiver: str) -> bytes:
        about = f"fedsub shares {self._own.session} {self._own.round} {sender} {receiver}"
        # By a roster only who was shown the same list can read them: quorums are of one number.
        return (about if self._signer is None else f"{about} {self._own.listed}").encode()


def between(session: str, one: str, other: str, told: str) -> bytes:
    """Return the purpose of a pair's mask; `session` and transcript, `told`, in hexadecimal.

    Two people with different transcripts have masks that do not cancel.
    """
    first, second = sorted((one, other))
    return f"fedsub mask {session} {first} {second} {told}".encode()
