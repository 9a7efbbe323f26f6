"""The sums of groups in which a sum is made anew that nobody's samples can have led to.

All groups are asked at once, by queries alone. :mod:`fedsub_core.secure.regrouping` says why a
group's sum is of the whole group or of nobody.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeVar

import numpy as np

from fedsub_core.errors import listed
from fedsub_core.secure.keys import Words
from fedsub_core.secure.messages import AGAIN, Record
from fedsub_core.secure.opening import CannotOpen
from fedsub_core.secure.quantise import Levels
from fedsub_core.secure.regrouping import groups_of
from fedsub_core.secure.summation import Summation
from strategies.protections.sum_transcript import SumTranscript

log = logging.getLogger("fedsub")
#: Asks people questions, and lets each answer be taken.
Asks = Callable[[Mapping[str, Mapping[str, Any]], Callable[[str, Mapping[str, Any]], None]], None]
#: A group's people, ascending.
Group = tuple[str, ...]
#: What a sum says.
S = TypeVar("S")
#: Names in an error.
NAMED = 10


@dataclass(frozen=True)
class Step:
    """A question of a sum: what is asked, what is done with an answer, who answered so far.

    `lacks` ends a sentence about those who did not.
    """

    ask: Callable[[Summation], Mapping[str, Record]]
    take: Callable[[Summation, str, Mapping[str, Any]], None]
    answered: Callable[[Summation], Collection[str]]
    lacks: str


@dataclass(frozen=True, eq=False)
class Anew:
    """An opened sum that is made anew in groups.

    Parameters
    ----------
    about : what the question for vectors says beside the plan.
    """

    opened: Summation
    levels: Levels
    about: Mapping[str, Any] = field(default_factory=dict)

    def if_needed(
        self,
        summed: Words,
        asks: Asks,
        value_of: Callable[[Words, Group], S],
        transcript: SumTranscript,
    ) -> tuple[S | None, Group]:
        """Return the value of the sum, or of that of some groups; and the people left out.

        Parameters
        ----------
        summed : the opened sum.
        value_of : of a sum over some people; raises ValueError if nobody's samples lead to it.
        """
        people = tuple(sorted(self.opened.sent))
        try:
            return value_of(summed, people), ()
        except ValueError as error:
            words, inside = self._possible(asks, error, value_of, transcript)
        return value_of(words, inside) if inside else None, tuple(sorted({*people} - {*inside}))

    def _possible(
        self,
        asks: Asks,
        why: object,
        value_of: Callable[[Words, Group], object],
        transcript: SumTranscript,
    ) -> tuple[Words, Group]:
        """Return the sum over all groups whose sums can be, and their people; log the others."""
        round, groups = self.opened.name.round, self.groups()
        total, inside = np.zeros(self.opened.length, np.uint32), list[str]()
        what = f"made anew in {len(groups)} groups" if groups else "they are too few for groups"
        people = len(self.opened.sent)
        log.warning("round %d: a secure sum is of no use, of %d: %s; %s", round, people, why, what)
        for group, summed in self.sums(asks, groups, transcript).items():
            fault = summed
            if not isinstance(summed, str):
                try:
                    value_of(summed, group)
                    total, inside = total + summed, [*inside, *group]
                    continue
                except ValueError as error:
                    fault = str(error)
            log.warning("round %d: left out: %s: %s", round, listed(group, NAMED), fault)
        return total, tuple(sorted(inside))

    def groups(self) -> list[Group]:
        """Return the groups of its people; [] if they are too few for two."""
        opened, name = self.opened, self.opened.name
        if not opened.smallest or len(opened.sent) < 2 * opened.smallest:
            return []
        return groups_of(sorted(opened.sent), name.run, name.method, opened.smallest)

    def sums(
        self, asks: Asks, groups: Sequence[Group], transcript: SumTranscript
    ) -> dict[Group, Words | str]:
        """Return each group's sum, or why it has none."""
        sums = {group: _begun(self.opened, group, transcript.head) for group in groups}
        of = {client: one for group, one in sums.items() for client in group}
        found = dict[Group, Words | str]()
        for step in (
            Step(_keys, Summation.take_keys, lambda one: one.keys, "showed no keys"),
            Step(Summation.ask_shares, Summation.take_shares, lambda one: one.sealed, "share none"),
            Step(self._vectors, Summation.take_words, lambda one: one.sent, "sent no vector"),
            Step(Summation.ask_views, Summation.take_view, _signers, "signed no view"),
            Step(_masks, Summation.take_unmasked, lambda one: one.sent, ""),
        ):
            left = sums.keys() - found.keys()
            asked = {c: question for group in left for c, question in step.ask(sums[group]).items()}
            if asked:
                asks(asked, partial(_taken, step, of))
            for group in left:
                if gone := sorted({*group} - {*step.answered(sums[group])}):
                    found[group] = f"{listed(gone, NAMED)} {step.lacks}"
        for group, one in sums.items():
            if group not in found:
                try:
                    found[group] = one.open()
                except CannotOpen as error:
                    found[group] = str(error)
            summed = found[group]
            transcript.add(one, None if isinstance(summed, str) else summed)
        return dict(sorted(found.items()))

    def _vectors(self, one: Summation) -> dict[str, Record]:
        plans = one.plans(self.levels)
        one.plan |= {"phase": AGAIN, **self.about}
        return {client: {**plan.record(AGAIN), **self.about} for client, plan in plans.items()}


def _taken(step: Step, of: Mapping[str, Summation], client: str, record: Mapping[str, Any]) -> None:
    step.take(of[client], client, record)


def _begun(opened: Summation, group: Group, head: bytes) -> Summation:
    name = opened.name
    one = Summation(name.round, opened.least, opened.length, name.run, name.method)
    one.opened_of, one.group = len(group), group
    one.head, one.once = head, opened.once
    one.anew = name.session, tuple(sorted(opened.sent))
    return one


def _keys(one: Summation) -> dict[str, Record]:
    return dict.fromkeys(one.group, one.ask_keys())


def _signers(one: Summation) -> Collection[str]:
    return one.views if one.signatures else one.sent


def _masks(one: Summation) -> dict[str, Record]:
    return {client: asked.record() for client, asked in one.ask_unmask().items()}
