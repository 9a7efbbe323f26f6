"""The sum of a round's uploads, of which the server sees none: what is asked, and what comes of it.

Before the downloads go out, those who take part show keys and share their secrets; behind the
uploads they are asked for what opens the sum. The protocol itself is :mod:`fedsub_core.secure`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import replace
from math import inf
from pathlib import Path

from flwr.app import ConfigRecord

from fedsub_core.config.settings import SecureSettings
from fedsub_core.errors import RunError, listed
from fedsub_core.metrics import MetricRow
from fedsub_core.secure import uploads as vectors
from fedsub_core.secure.keys import Words
from fedsub_core.secure.messages import Plan
from fedsub_core.secure.opening import CannotOpen
from fedsub_core.secure.quantise import BESIDE, Levels
from fedsub_core.secure.summation import Summation
from fedsub_core.wire.bundles import Bundle
from strategies.protections.groups import NAMED, Anew, Asks, Group, S
from strategies.protections.open_sum import OpenSum, TooFew, check_clip
from strategies.protections.sum_transcript import SumTranscript
from strategies.rounds.connection import Connection
from strategies.rounds.context import Opened, SumRequest
from strategies.rounds.link import Link
from strategies.rounds.questions import ask
from strategies.rounds.transport import Transport

log = logging.getLogger("fedsub")


class SecureSums:
    """Sums of a run's rounds, one after another.

    Parameters
    ----------
    settings : of how many people, and in which range.
    run, method : as in a turn.
    path : of the transcript; None: there is none.
    """

    def __init__(
        self,
        settings: SecureSettings,
        transport: Transport,
        run: str,
        method: str,
        path: Path | None = None,
    ) -> None:
        self.settings, self.transport = settings, transport
        self._of, self.transcript = (run, method), SumTranscript(path, run, method)

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

        Raises TooFew if they are fewer than a sum must be of. Raises RunError if they have more
        samples than sums can bear, or rounding moves a change by too much of what it may be long.
        """
        timeout, most = connection.rounds.round_timeout, connection.most_of(len(asked.clients))
        nodes = connection.population.nodes
        asks = self.asks(connection.link, nodes, round, timeout, most)
        one = self.prepared(asks, round, sorted(asked.clients), asked.numbers)
        one.opened_of, one.once = max(one.least, asked.opened_of), asked.once
        # With noise nobody may learn whether the numbers can be, which have none.
        one.smallest = 0 if longest < inf else one.opened_of
        try:
            # Of the list that all were shown: each device makes the same of it.
            levels = Levels.of_people(len(one.keys), weight, asked.range)
        except ValueError as error:
            raise RunError(
                f"round {round}: secure-aggregation: {error}; lower most-examples"
            ) from None
        check_clip(round, levels, asked.numbers - BESIDE, longest)
        plans = self.plans(one, levels)
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
        fault: Callable[[Opened], str],
    ) -> tuple[Opened | None, list[MetricRow]]:
        """Add up what came and ask those who sent it to open the sum; return what it says.

        None where it cannot be opened. Where it says what it cannot, it is made anew in groups; it
        has no total where that does not help.

        Parameters
        ----------
        fault : :meth:`ServerHalf.fault` of a sum.
        """
        one = begun.summation
        timeout = self.transport.delivery.time_left(connection.rounds.round_timeout)
        nodes, most = connection.population.nodes, connection.most_of(len(uploads))
        for client, upload in uploads.items():
            one.take_vector(client, vectors.vector_of(upload))
        asks = self.asks(connection.link, nodes, round, timeout, most)

        def value_of(words: Words, people: Group) -> Opened:
            """Return the value of a sum; raises ValueError if nobody's samples lead to it."""
            total = begun.levels.total(words, len(people), begun.noised)
            found = Opened(total, people, begun.levels)
            if why := fault(found):
                raise ValueError(why)
            return found

        people = tuple(sorted(one.sent))
        try:
            opened, lost = self.opened(asks, Anew(one, begun.levels), value_of)
        except CannotOpen as error:
            log.warning("round %d: the secure sum is lost, and the model stays: %s", round, error)
            return None, [MetricRow(round, "", None, "secure_lost", 1)]
        if opened is None or opened.total is None:
            rows = [MetricRow(round, "", None, "secure_lost", 1)]
            return Opened(None, people, begun.levels, lost), rows
        numbers = {"secure_people": len(opened.clients), "secure_shortened": opened.total.shortened}
        rows = [MetricRow(round, "", None, name, n) for name, n in numbers.items()]
        rows += [MetricRow(round, client, None, "secure_left_out", 1) for client in lost]
        return replace(opened, lost=lost), rows

    # One sum, step by step.

    def asks(
        self, link: Link, nodes: Mapping[str, int], round: int, timeout: float, most: int
    ) -> Asks:
        """Return a function that asks people questions, and lets each answer be taken."""
        return lambda questions, take: ask(
            self.transport, link, questions, take, nodes, round, timeout, most
        )

    def prepared(self, asks: Asks, round: int, people: list[str], length: int) -> Summation:
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

    def plans(self, one: Summation, levels: Levels) -> dict[str, Plan]:
        """Return the plans of a sum's people."""
        one.head = self.transcript.head_of_plans()
        plans = one.plans(levels)
        self._demand(one.name.round, len(plans), "people have neighbours enough")
        return plans

    def opened(
        self, asks: Asks, of: Anew, value_of: Callable[[Words, Group], S]
    ) -> tuple[S | None, Group]:
        """Return the value of a sum, once people open it; and the people left out.

        Parameters
        ----------
        of : the sum, and as what it is made anew where it says what cannot be.
        value_of : :meth:`Anew.if_needed`'s.

        Raises CannotOpen if its masks cannot be taken off.
        """
        one, delivery, summed = of.opened, self.transport.delivery, None
        silent = delivery.silent
        try:
            if views := one.ask_views():
                asks(views, one.take_view)
            asks({c: asked.record() for c, asked in one.ask_unmask().items()}, one.take_unmasked)
            summed = one.open()
        finally:
            self.transcript.add(one, summed)
            # Who did not train is not asked to be tested; who did is, however it fared here.
            delivery.silent = silent
            for holder, client in sorted(one.opening.wrong):
                round = one.name.round
                log.warning("round %d, client %s: its share of %s is wrong", round, holder, client)
        found = of.if_needed(summed, asks, value_of, self.transcript)
        delivery.silent = silent
        return found

    def _demand(self, round: int, people: int, what: str) -> None:
        if people < self.settings.secure_least:
            kept = ". Finished rounds are kept: the run can be resumed" if round else ""
            raise TooFew(
                f"round {round}: secure-aggregation: {people} {what}, expected "
                f"{self.settings.secure_least} at least (secure-least); the log says why{kept}"
            )
