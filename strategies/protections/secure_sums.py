"""The sum of a round's uploads, of which the server sees none: what is asked, and what comes of it.

Before the downloads go out, those who take part show keys and share their secrets; behind the
uploads they are asked for what opens the sum. The protocol itself is :mod:`fedsub_core.secure`.

Before the first round moments are added up the same way, by queries alone.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from functools import partial
from math import inf
from typing import Any

from flwr.app import ConfigRecord

from fedsub_core.config.settings import SecureSettings
from fedsub_core.data.standardise import LARGEST_VALUE, Moments
from fedsub_core.errors import RunError, listed
from fedsub_core.metrics import MetricRow
from fedsub_core.secure import exact
from fedsub_core.secure import uploads as vectors
from fedsub_core.secure.keys import Words
from fedsub_core.secure.messages import FEATURES, MOMENTS, Plan
from fedsub_core.secure.quantise import BESIDE, Levels
from fedsub_core.secure.summation import CannotOpen, Summation
from fedsub_core.wire.bundles import Bundle
from strategies.protections.open_sum import OpenSum, TooFew, check_clip
from strategies.rounds.connection import Connection
from strategies.rounds.context import Opened, SumRequest
from strategies.rounds.link import Link
from strategies.rounds.questions import ask
from strategies.rounds.transport import Transport

log = logging.getLogger("fedsub")
#: Names in a line of the log.
NAMED = 10

#: Asks people questions, and lets each answer be taken.
Asks = Callable[[Mapping[str, Mapping[str, Any]], Callable[[str, Mapping[str, Any]], None]], None]


class SecureSums:
    """Sums of a run's rounds, one after another.

    Parameters
    ----------
    settings : of how many people, and in which range.
    transport : by which they are asked.
    run, method : as in a turn.
    """

    def __init__(
        self, settings: SecureSettings, transport: Transport, run: str, method: str
    ) -> None:
        self.settings, self.transport = settings, transport
        self._of = run, method

    def begin(
        self,
        connection: Connection,
        round: int,
        asked: SumRequest,
        weight: int,
        longest: float,
    ) -> OpenSum:
        """Ask people for keys and shares; return the sum of those who can be in it.

        Parameters
        ----------
        asked : of whom, and what their vectors are.
        weight : as how many samples one person counts at most.
        longest : greatest L2 norm of a person's change where sums get noise; infinite: they do not.

        Raises
        ------
        TooFew
            If they are fewer than a sum must be of.
        RunError
            If they have more samples than sums can bear, or rounding moves a change by too much of
            what it may be long.
        """
        timeout, most = connection.rounds.round_timeout, connection.most_of(len(asked.clients))
        asks = partial(
            self._ask, connection.link, connection.population.nodes, round, timeout, most
        )
        one = self._prepared(asks, round, sorted(asked.clients), asked.numbers)
        one.opened_of = max(one.least, asked.opened_of)
        try:
            # Of the list that all were shown: each device makes the same of it.
            levels = Levels.of_people(len(one.keys), weight, asked.range)
        except ValueError as error:
            raise RunError(
                f"round {round}: secure-aggregation: {error}; lower most-examples"
            ) from None
        check_clip(round, levels, asked.numbers - BESIDE, longest)
        plans = self._plans(one, levels)
        records = {client: ConfigRecord(plan.record()) for client, plan in plans.items()}
        left = frozenset(asked.clients) - plans.keys()
        declared = dict.fromkeys(sorted(plans), vectors.declared_of(asked.numbers))
        return OpenSum(one, levels, longest < inf, declared, records, left)

    def close(
        self,
        connection: Connection,
        round: int,
        begun: OpenSum,
        uploads: Mapping[str, Bundle],
    ) -> tuple[Opened | None, list[MetricRow]]:
        """Add up what came and ask those who sent it to open the sum; return what it says.

        None where it cannot be opened, without a total where it says what it cannot.
        """
        one, total, summed = begun.summation, None, None
        timeout = self.transport.delivery.time_left(connection.rounds.round_timeout)
        nodes, most = connection.population.nodes, connection.most_of(len(uploads))
        for client, upload in uploads.items():
            one.take_vector(client, vectors.vector_of(upload))
        try:
            summed = self._opened(
                partial(self._ask, connection.link, nodes, round, timeout, most), one
            )
            total = begun.levels.total(summed, len(one.sent), begun.noised)
        except (CannotOpen, ValueError) as error:
            log.warning("round %d: the secure sum is lost, and the model stays: %s", round, error)
        opened = Opened(total, tuple(sorted(one.sent)), begun.levels)
        if total is None:
            lost = [MetricRow(round, "", None, "secure_lost", 1)]
            return None if summed is None else opened, lost
        people = MetricRow(round, "", None, "secure_people", len(one.sent))
        return opened, [people, MetricRow(round, "", None, "secure_shortened", total.shortened)]

    def moments(
        self,
        link: Link,
        nodes: Mapping[str, int],
        timeout: float,
        most: int,
        part: str,
        numbers: int,
    ) -> Moments:
        """Return everybody's moments, of which the server sees nobody's, before the first round.

        The sum is exact: it has the bits of what plain moments are pooled to.

        Parameters
        ----------
        nodes : of those whose moments these are.
        timeout, most : :meth:`Delivery.exchange`'s.
        part : what the moments are of, :data:`SAMPLES` or :data:`FEATURES`.
        numbers : how many of these each sample has.

        Raises
        ------
        RunError
            If people are too few or too many, or their sum cannot be opened, or is one that no
            samples have.
        """
        if len(nodes) > exact.MOST_PEOPLE:
            expected = f"{exact.MOST_PEOPLE} at most, or standardise = client or none"
            raise RunError(f"secure-aggregation: got {len(nodes)} people, expected {expected}")
        asks = partial(self._ask, link, nodes, 0, timeout, most)
        try:
            one = self._prepared(asks, 0, sorted(nodes), exact.LIMBS * (1 + 2 * numbers))
            plans = self._plans(one, Levels(range=1.0, weight=1, each=1))
            told = {"phase": MOMENTS, "of": part}
            asks({client: plan.record() | told for client, plan in plans.items()}, one.take_words)
            summed = self._opened(asks, one)
        except (CannotOpen, TooFew) as error:
            raise RunError(
                f"what all standardise by cannot be added up: {error}. Start again. Devices that "
                "name an earlier sum answer none of nearly the same people, in any run: bring back "
                "or leave out whom they name, or choose standardise = client or none"
            ) from None
        found = Moments.of_vector(exact.numbers_of(summed))
        if fault := found.fault(1.0 if part == FEATURES else LARGEST_VALUE):
            raise RunError(
                f"what all standardise by: got {fault}, which no samples have: somebody sent a "
                "wrong vector, and sums do not tell who. Choose standardise = client or none"
            )
        if len(one.sent) < len(nodes):
            log.warning(
                "what all standardise by is of %d of %d people; the others were silent or refused",
                len(one.sent),
                len(nodes),
            )
        return found

    # One sum, step by step.

    def _ask(
        self,
        link: Link,
        nodes: Mapping[str, int],
        round: int,
        timeout: float,
        most: int,
        questions: Mapping[str, Mapping[str, Any]],
        take: Callable[[str, Mapping[str, Any]], None],
    ) -> None:
        ask(self.transport, link, questions, take, nodes, round, timeout, most)

    def _prepared(self, asks: Asks, round: int, people: list[str], length: int) -> Summation:
        """Return a sum of `people`, once they have shown keys and shared their secrets."""
        self._demand(round, len(people), "people take part")
        run, method = self._of
        one = Summation(round, self.settings.secure_least, length, run, method)
        asks(dict.fromkeys(people, one.ask_keys()), one.take_keys)
        if unsigned := one.leave_out_unsigned():
            names = listed(unsigned, NAMED)
            log.warning("round %d: left out, as most people's keys are signed: %s", round, names)
        self._demand(round, len(one.keys), f"of {len(people)} people showed keys")
        asks(one.ask_shares(), one.take_shares)
        self._demand(round, len(one.sealed), f"of {len(people)} people shared their secrets")
        return one

    def _plans(self, one: Summation, levels: Levels) -> dict[str, Plan]:
        plans = one.plans(levels)
        self._demand(one.name.round, len(plans), "people have neighbours enough")
        return plans

    def _opened(self, asks: Asks, one: Summation) -> Words:
        """Return a sum of the vectors that came, once those who sent them open it."""
        delivery = self.transport.delivery
        silent = delivery.silent
        try:
            if views := one.ask_views():
                asks(views, one.take_view)
            asks({c: asked.record() for c, asked in one.ask_unmask().items()}, one.take_unmasked)
            return one.open()
        finally:
            # Who did not train is not asked to be tested; who did is, however it fared here.
            delivery.silent = silent
            for holder, client in sorted(one.wrong):
                round = one.name.round
                log.warning("round %d, client %s: its share of %s is wrong", round, holder, client)

    def _demand(self, round: int, people: int, what: str) -> None:
        if people < self.settings.secure_least:
            kept = ". Finished rounds are kept: the run can be resumed" if round else ""
            raise TooFew(
                f"round {round}: secure-aggregation: {people} {what}, expected "
                f"{self.settings.secure_least} at least (secure-least); the log says why{kept}"
            )
