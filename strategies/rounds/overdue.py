"""Overdue messages: those that were not answered in time, and may be later."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field

from flwr.app import Message, MessageType

from fedsub_core.flower.messages import stamp_answered
from strategies.rounds.outbox import Outbox
from strategies.rounds.pace import Pace


@dataclass(frozen=True)
class Overdue:
    """A message without an answer in time.

    Parameters
    ----------
    kind, client, round : what it asks for, whom, and in which round; 0: for no upload.
    sent, expires : when it was sent, and until when its answer can come; s of the link's clock.
    pace : of the others then.
    """

    kind: str
    client: str
    round: int
    sent: float
    expires: float
    pace: Pace


@dataclass
class OverdueMessages:
    """The messages of earlier exchanges, by their ids.

    Parameters
    ----------
    keeps : for how many seconds after its deadline an upload is still of use; 0: none is.
    """

    keeps: float = 0.0
    _messages: dict[str, Overdue] = field(default_factory=dict)
    #: Those that were answered in the last exchange, with an upload that is of use.
    _answered: dict[str, Overdue] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self._messages)

    def begin(self) -> None:
        """Begin an exchange."""
        self._answered = {}

    def lasts(self, timeout: float) -> float:
        """Return for how many seconds a message counts, of an exchange with that deadline."""
        return max(2 * timeout, timeout + self.keeps)

    def add(self, kind: str, since: float, timeout: float, box: Outbox, pace: Pace) -> None:
        """Note what is still awaited of messages of a kind that were sent at `since`."""
        expires = since + self.lasts(timeout)
        for identity, (client, message) in box.awaited.items():
            round = int(message.metadata.group_id or 0) if kind == MessageType.TRAIN else 0
            self._messages[identity] = Overdue(kind, client, round, since, expires, pace)

    def await_again(
        self, client: str, message: Message, now: float, expires: float, pace: Pace
    ) -> None:
        """Note an upload of an earlier process's round that its client is asked for again."""
        number, kind = int(message.metadata.group_id), MessageType.TRAIN
        identity = message.metadata.message_id
        self._messages[identity] = Overdue(kind, client, number, now, expires, pace)

    def until(self) -> Iterator[tuple[int, str, float]]:
        """Yield the round, the client and the end of each upload that may come late."""
        for one in self._messages.values() if self.keeps else ():
            if one.round:
                yield one.round, one.client, one.expires

    def expired(self, now: float) -> Iterator[Overdue]:
        """Yield, and forget, messages whose uploads would be of no use any more."""
        for identity, one in list(self._messages.items()):
            if self.keeps and now >= one.expires:
                del self._messages[identity]
                yield one

    def ids(self, box: Outbox, uploads: bool) -> list[str]:
        """Return the ids of messages whose answers may be there.

        Asked for the answer of a node that is offline, the link says so and forgets the message.

        Parameters
        ----------
        uploads : whether uploads are of use now; else they wait at the link.
        """
        if not self.keeps:
            return list(self._messages)
        messages = {i: one for i, one in self._messages.items() if uploads or not one.round}
        nodes, there = box.nodes, box.link.there
        return [i for i, one in messages.items() if nodes.get(one.client) in there]

    def take(self, identity: str, came: object) -> Overdue | None:
        """Return the message that an answer is to; None: an error, or to none of these."""
        one = self._messages.pop(identity, None)
        if one is None or not isinstance(came, Message) or came.has_error():
            return None
        stamp_answered(came, identity)
        if self.keeps and one.round:
            self._answered[identity] = one
        return one

    def answered(self, reply: Message) -> Overdue | None:
        """Return the message whose answer `reply` is, where it is of use."""
        return self._answered.get(reply.metadata.reply_to_message_id)

    def awaited(self) -> dict[int, set[str]]:
        """Return the people whose upload may come late and be of use, by the round of each."""
        found = defaultdict[int, set[str]](set)
        for number, client, _ in self.until():
            found[number].add(client)
        return dict(found)
