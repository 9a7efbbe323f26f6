"""What a method is told of its run when it begins, and of who sent an upload when it is checked."""

from __future__ import annotations

from dataclasses import dataclass

from fedsub_core.errors import MessageRefused
from fedsub_core.models.model import Model
from fedsub_core.turn import Turn
from fedsub_core.wire.bundles import Declaration
from fedsub_core.wire.envelope import refusal


@dataclass(frozen=True)
class Start:
    """What a run begins with, once devices have said who they are and what their samples are like.

    Parameters
    ----------
    model : the architecture.
    sends : the tensors that the method's card says a device sends, by name.
    clients : ids of those who are there.
    """

    model: Model
    sends: Declaration
    clients: tuple[str, ...]


@dataclass(frozen=True)
class Sender:
    """Who sent an upload, in which round.

    Parameters
    ----------
    client : its id.
    turn : the round's.
    """

    client: str
    turn: Turn

    def refuse(self, what: str, got: object, expected: object) -> MessageRefused:
        """Return the error for an upload that the method cannot use."""
        return refusal(self.client, self.turn.round, what, got, expected)
