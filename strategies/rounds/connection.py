"""The connection of a run to its people: the link, who they are, and how messages travel."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from flwr.app import Message

from fedsub_core.config.settings import RoundSettings
from fedsub_core.wire.bundles import Declaration
from strategies.rounds.late import PastRounds
from strategies.rounds.link import Link
from strategies.rounds.pace import most_of
from strategies.rounds.population import Population
from strategies.rounds.transport import Transport


@dataclass(frozen=True, eq=False)
class Connection:
    """The connection of a run to its people.

    Parameters
    ----------
    link : the way to their nodes.
    population : who they are.
    transport : how messages travel.
    rounds : the run's settings of rounds.
    past : earlier rounds whose uploads may still come.
    """

    link: Link
    population: Population
    transport: Transport
    rounds: RoundSettings
    past: PastRounds = field(default_factory=PastRounds)

    @property
    def simulated(self) -> bool:
        """Whether nobody takes part but simulated people: all then follows from the run's seed."""
        return self.link.in_process or self.population.registry.simulated

    def most_of(self, asked: int) -> int:
        """Return the number of answers that set the pace of an exchange; 0: none do.

        Simulated people take turns on one machine, and their results must follow from the seed
        alone. (In one process all have answered before anybody is waited for.)
        """
        return 0 if self.population.registry.simulated else most_of(asked, self.rounds.quorum)

    def deliver(
        self,
        messages: Iterable[Message],
        timeout: float,
        sends: Declaration,
        enough: int = 0,
    ) -> Iterator[Message]:
        """Send messages and yield the replies that come in time: :meth:`Transport.deliver`."""
        most = 0
        if not self.population.registry.simulated:
            messages = list(messages)
            most = self.most_of(len(messages))
        nodes = self.population.nodes
        return self.transport.deliver(self.link, messages, nodes, timeout, sends, most, enough)
