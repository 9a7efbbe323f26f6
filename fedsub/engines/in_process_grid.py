"""Flower's Grid without a link: messages go to clients of this process, or of workers it calls.

The strategy cannot tell it from a SuperLink: messages go out, replies come back. Where both ends
are one process (``by_reference``) they are not written, unless somebody looks at them; else the
payloads are the wire's bytes.
"""

from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import count

from flwr.app import Message, RecordDict
from flwr.serverapp import Grid

from fedsub_client.learner import State
from fedsub_client.personal_model import PersonalModel
from fedsub_client.split_client import SplitClient
from fedsub_core.data.standardise import Scaling
from fedsub_core.errors import RunError
from fedsub_core.flower.messages import Run, play_alone, stamp_id
from fedsub_core.turn import Turn
from fedsub_core.wire.bundles import Bundle


class InProcessGrid(Grid):
    """A federation without a link between its ends.

    Parameters
    ----------
    nodes : of the clients.
    """

    #: It takes whole lists, and trains them together.
    in_process = True
    #: Whether messages may be :class:`~fedsub_core.wire.in_process_message.InProcessMessage`;
    #: written ones always may.
    by_reference = False

    def __init__(self, nodes: Sequence[int]) -> None:
        self._nodes = list(nodes)
        self._ids = count(1)
        self._replies: dict[str, Message] = {}
        play_alone()

    @abstractmethod
    def answers(self, messages: Sequence[Message]) -> Iterable[Message]:
        """Let the addressed clients work; return their replies."""

    def set_run(self, run: Run) -> None:
        """Do nothing: there is no link to tell."""

    @property
    def run(self) -> Run:
        """A run of this process alone."""
        return Run.create_empty(0)

    def create_message(
        self,
        content: RecordDict,
        message_type: str,
        dst_node_id: int,
        group_id: str,
        ttl: float | None = None,
    ) -> Message:
        """Return a new message (Flower's older way to make one)."""
        return Message(content, dst_node_id, message_type, ttl=ttl, group_id=group_id)

    def get_node_ids(self) -> Iterable[int]:
        """Return the clients' nodes."""
        return list(self._nodes)

    def push_messages(self, messages: Iterable[Message]) -> Iterable[str]:
        """Let the addressed clients work; their replies wait to be pulled."""
        asked = list(messages)
        for message in asked:
            stamp_id(message, f"message-{next(self._ids)}")
        for reply in self.answers(asked):
            self._replies[reply.metadata.reply_to_message_id] = reply
        return [message.metadata.message_id for message in asked]

    def pull_messages(self, message_ids: Iterable[str]) -> Iterable[Message]:
        """Return the replies to the messages of these ids, each once."""
        return [self._replies.pop(i) for i in message_ids if i in self._replies]

    def send_and_receive(
        self, messages: Iterable[Message], *, timeout: float | None = None
    ) -> Iterable[Message]:
        """Let the addressed clients work and return their replies; none is ever late."""
        return self.pull_messages(self.push_messages(messages))


class SimulationGrid(InProcessGrid):
    """A federation whose clients' states can be asked for and set."""

    #: Nobody joins later.
    closed = True

    @abstractmethod
    def state(self) -> dict[str, State]:
        """Return every client's state, ``client/<id>`` to named tensors without a client axis."""

    @abstractmethod
    def load_state(self, state: Mapping[str, State]) -> None:
        """Inverse of :meth:`state`.

        Raises RunError if a client of the federation is not in `state`.
        """

    @abstractmethod
    def personal_models(
        self, turn: Turn, scaling: Scaling | None, received: Mapping[str, Bundle]
    ) -> Iterator[PersonalModel]:
        """Yield every client's model as it is evaluated after what it `received`."""

    @abstractmethod
    def close(self) -> None:
        """End the threads or workers."""


def check_clients(state: Mapping[str, State], clients: Iterable[SplitClient]) -> None:
    """Raise RunError where the state of a client of the federation is missing."""
    if missing := [one.client for one in clients if f"client/{one.client}" not in state]:
        raise RunError(f"the run's state lacks clients {', '.join(missing)}")
