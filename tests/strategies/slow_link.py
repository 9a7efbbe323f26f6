"""A link on which some nodes' replies take a while, on a clock that only waiting moves."""

from collections.abc import Callable, Iterable

from flwr.app import Message
from flwr.serverapp import Grid

from .partial_grid import PartialGrid
from .waiting_clock import WaitingClock


class SlowLink(PartialGrid):
    """A Grid in front of another.

    Parameters
    ----------
    seconds : that the reply to a message takes.
    """

    def __init__(
        self, grid: Grid, clock: WaitingClock, seconds: Callable[[Message], float]
    ) -> None:
        self.grid, self.clock, self.seconds = grid, clock, seconds
        self._due: dict[str, float] = {}

    def get_node_ids(self) -> Iterable[int]:
        return self.grid.get_node_ids()

    def push_messages(self, messages: Iterable[Message]) -> Iterable[str]:
        sent = list(messages)
        ids = list(self.grid.push_messages(sent))
        for message in sent:
            self._due[message.metadata.message_id] = self.clock.now + self.seconds(message)
        return ids

    def pull_messages(self, message_ids: Iterable[str]) -> Iterable[Message]:
        there = [one for one in message_ids if self._due[one] <= self.clock.now]
        return self.grid.pull_messages(there)
