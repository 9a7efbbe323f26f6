"""The part of Flower's Grid that no strategy here uses."""

from collections.abc import Iterable
from typing import Any

from flwr.app import Message
from flwr.serverapp import Grid
from flwr.supercore.run import Run


class PartialGrid(Grid):
    """A Grid of which only nodes, pushing and pulling are left to write."""

    #: As our engines, it takes and gives lists.
    in_process = True

    def set_run(self, run: Run) -> None:
        """Fail: no strategy needs it."""
        raise NotImplementedError

    @property
    def run(self) -> Run:
        """A run of this process alone."""
        return Run.create_empty(0)

    def create_message(self, *_: Any, **__: Any) -> Message:
        """Fail: messages are made by their class."""
        raise NotImplementedError

    def send_and_receive(
        self, messages: Iterable[Message], *, timeout: float | None = None
    ) -> Iterable[Message]:
        """Fail: it has no idea of who answered."""
        raise NotImplementedError
