"""The sum of a round's uploads, of which the server sees none: what is asked, and what comes of it.

Before the downloads go out, those who take part show keys and share their secrets; behind the
uploads they are asked for what opens the sum. The protocol itself is :mod:`fedsub_core.secure`.
"""

from __future__ import annotations

import logging
import statistics
from collections.abc import Mapping, Sequence

from flwr.app import ConfigRecord

from fedsub_core.config.settings import SecureSettings
from fedsub_core.errors import RunError
from fedsub_core.metrics import MetricRow
from fedsub_core.secure import uploads as vectors
from fedsub_core.secure.quantise import Levels
from fedsub_core.secure.summation import CannotOpen, Summation
from fedsub_core.wire.bundles import Bundle
from strategies.rounds.context import Addends, Opened
from strategies.rounds.link import Link
from strategies.rounds.transport import Transport

log = logging.getLogger("fedsub")


class TooFew(RunError):
    """Fewer people than a sum must be of."""


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
        transport.vectors = {}
        #: Who was asked, and is not in the round's sum, for it did not say what it takes.
        self.left: frozenset[str] = frozenset()
        #: What goes beside the downloads of those who are.
        self.beside: dict[str, ConfigRecord] = {}

    def none(self) -> None:
        """Note that nothing is added up in a round."""
        self.left, self.beside, self.transport.vectors = frozenset(), {}, {}

    def begin(
        self,
        link: Link,
        round: int,
        addends: Addends,
        examples: Mapping[str, int],
        nodes: Mapping[str, int],
        most_examples: float,
        timeout: float,
        most: int,
    ) -> list[str]:
        """Ask people for keys and shares; return who can be in the sum, ascending.

        Parameters
        ----------
        addends : whose vectors, and what these are.
        examples : how many samples each of them said that it has.
        most_examples : as how many samples one person counts, see :func:`most_weight`.
        timeout, most : :meth:`Delivery.exchange`'s.

        Raises
        ------
        TooFew
            If they are fewer than a sum must be of.
        RunError
            If they have more samples than sums can bear.
        """
        self.none()
        least, (run, method) = self.settings.secure_least, self._of
        self._demand(round, len(examples), "people take part")
        one = self._sum = Summation(round, least, addends.numbers, run, method)
        one.opened_of = max(least, addends.opened_of)
        ask, told = self.transport.ask, (nodes, round, timeout, most)
        ask(link, dict.fromkeys(examples, one.ask_keys()), one.take_keys, *told)
        self._demand(round, len(one.keys), f"of {len(examples)} people showed keys")
        ask(link, one.ask_shares(), one.take_shares, *told)
        self._demand(round, len(one.sealed), f"of {len(examples)} people shared their secrets")
        weight = most_weight(list(examples.values()), most_examples)
        try:
            self._levels = Levels.among(len(one.sealed), weight, addends.range)
        except ValueError as error:
            raise RunError(
                f"round {round}: secure-aggregation: {error}; lower most-examples"
            ) from None
        plans = one.plans(self._levels)
        self._demand(round, len(plans), "people have neighbours enough")
        self.beside = {client: ConfigRecord(plan.record()) for client, plan in plans.items()}
        self.left = frozenset(examples.keys() - plans.keys())
        self.transport.vectors = dict.fromkeys(plans, vectors.declared_of(addends.numbers))
        return sorted(plans)

    def close(
        self,
        link: Link,
        round: int,
        uploads: Mapping[str, Bundle],
        nodes: Mapping[str, int],
        timeout: float,
        most: int,
    ) -> tuple[Opened | None, list[MetricRow]]:
        """Add up what came and ask those who sent it to open the sum; return what it says.

        None where it cannot be opened, without a total where it says what it cannot.
        """
        one, delivery = self._sum, self.transport.delivery
        for client, upload in uploads.items():
            one.take_vector(client, vectors.vector_of(upload))
        silent, total, summed = delivery.silent, None, None
        try:
            questions = {c: asked.record() for c, asked in one.ask_unmask().items()}
            told = nodes, round, timeout, most
            self.transport.ask(link, questions, one.take_unmasked, *told)
            summed = one.open()
            total = self._levels.total(summed, len(one.sent))
        except (CannotOpen, ValueError) as error:
            log.warning("round %d: the secure sum is lost, and the model stays: %s", round, error)
        finally:
            # Who did not train is not asked to be tested; who did is, however it fared here.
            delivery.silent = silent
            for holder, client in sorted(one.wrong):
                log.warning("round %d, client %s: its share of %s is wrong", round, holder, client)
        opened = Opened(total, tuple(sorted(one.sent)), self._levels)
        if total is None:
            lost = [MetricRow(round, "", None, "secure_lost", 1)]
            return None if summed is None else opened, lost
        people = MetricRow(round, "", None, "secure_people", len(one.sent))
        return opened, [people, MetricRow(round, "", None, "secure_shortened", total.shortened)]

    def _demand(self, round: int, people: int, what: str) -> None:
        if people < self.settings.secure_least:
            raise TooFew(
                f"round {round}: secure-aggregation: {people} {what}, expected "
                f"{self.settings.secure_least} at least (secure-least); the log says why. Finished "
                "rounds are kept: the run can be resumed"
            )


def most_weight(examples: Sequence[int], most: float) -> int:
    """Return what one person may weigh at most, in samples: `most` times the median (0: any)."""
    if not most:
        return max(examples)
    return max(1, int(most * statistics.median_high(examples)))
