"""The sum of a round's uploads, of which the server sees none: what is asked, and what comes of it.

Before the downloads go out, those who take part show keys and share their secrets; behind the
uploads they are asked for what opens the sum. The protocol itself is :mod:`fedsub_core.secure`.
"""

from __future__ import annotations

import logging
import statistics
from collections.abc import Mapping, Sequence

from flwr.app import ConfigRecord

from fedsub_core.config.settings import RobustSettings, SecureSettings
from fedsub_core.errors import RunError
from fedsub_core.metrics import MetricRow
from fedsub_core.secure import uploads as vectors
from fedsub_core.secure.quantise import Levels, Total
from fedsub_core.secure.summation import CannotOpen, Summation
from fedsub_core.wire.bundles import Bundle, Declaration
from strategies.rounds.link import Link
from strategies.rounds.transport import Transport

log = logging.getLogger("fedsub")


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
        #: Who was asked, and who was not asked to train, for it did not say what it takes.
        self.left: frozenset[str] = frozenset()
        self.beside: dict[str, ConfigRecord] = {}

    def begin(
        self,
        link: Link,
        round: int,
        examples: Mapping[str, int],
        nodes: Mapping[str, int],
        sends: Declaration,
        robust: RobustSettings,
        timeout: float,
        most: int,
    ) -> list[str]:
        """Ask people for keys and shares; return who can be in the sum, ascending.

        Parameters
        ----------
        examples : how many samples each said that it has.
        sends : what the method sends.
        robust : how many samples of one person count.
        timeout, most : :meth:`Delivery.exchange`'s.

        Raises
        ------
        RunError
            If they are fewer than a sum must be of.
        """
        least, (run, method) = self.settings.secure_least, self._of
        self._demand(round, len(examples), "people take part")
        one = self._sum = Summation(round, least, vectors.length(sends), run, method)
        self.transport.summed = vectors.declared(sends)
        ask, told = self.transport.ask, (nodes, round, timeout, most)
        ask(link, dict.fromkeys(examples, one.ask_keys()), one.take_keys, *told)
        self._demand(round, len(one.keys), f"of {len(examples)} people showed keys")
        ask(link, one.ask_shares(), one.take_shares, *told)
        self._demand(round, len(one.sealed), f"of {len(examples)} people shared their secrets")
        weight = most_weight(list(examples.values()), robust.most_examples)
        try:
            self._levels = Levels.among(len(one.sealed), weight, self.settings.secure_range)
        except ValueError as error:
            raise RunError(
                f"round {round}: secure-aggregation: {error}; lower most-examples"
            ) from None
        plans = one.plans(self._levels)
        self._demand(round, len(plans), "people have neighbours enough")
        self.beside = {client: ConfigRecord(plan.record()) for client, plan in plans.items()}
        self.left = frozenset(examples.keys() - plans.keys())
        return sorted(plans)

    def close(
        self,
        link: Link,
        round: int,
        uploads: Mapping[str, Bundle],
        nodes: Mapping[str, int],
        timeout: float,
        most: int,
    ) -> tuple[Total | None, list[MetricRow]]:
        """Add up what came and ask those who sent it to open the sum; return what it says.

        None where it cannot be opened: the round then changes nothing.
        """
        one, delivery = self._sum, self.transport.delivery
        for client, upload in uploads.items():
            one.take_vector(client, vectors.vector_of(upload))
        silent = delivery.silent
        try:
            questions = {c: asked.record() for c, asked in one.ask_unmask().items()}
            told = nodes, round, timeout, most
            self.transport.ask(link, questions, one.take_unmasked, *told)
            total = self._levels.total(one.open(), len(one.sent))
        except (CannotOpen, ValueError) as error:
            log.warning("round %d: the secure sum is lost, and the model stays: %s", round, error)
            return None, [MetricRow(round, "", None, "secure_lost", 1)]
        finally:
            # Who did not train is not asked to be tested; who did is, however it fared here.
            delivery.silent = silent
            for holder, client in sorted(one.wrong):
                log.warning("round %d, client %s: its share of %s is wrong", round, holder, client)
        people = MetricRow(round, "", None, "secure_people", len(one.sent))
        return total, [people, MetricRow(round, "", None, "secure_shortened", total.shortened)]

    def _demand(self, round: int, people: int, what: str) -> None:
        if people < self.settings.secure_least:
            raise RunError(
                f"round {round}: secure-aggregation: {people} {what}, expected "
                f"{self.settings.secure_least} at least (secure-least); the log says why. Finished "
                "rounds are kept: the run can be resumed"
            )


def most_weight(examples: Sequence[int], most: float) -> int:
    """Return what one person may weigh at most, in samples: `most` times the median (0: any)."""
    if not most:
        return max(examples)
    return max(1, int(most * statistics.median_high(examples)))
