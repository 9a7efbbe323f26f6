"""Flower's Grid in one process, behind which every person has a device of their own.

Each node's messages go to the ClientApp's handlers, as a SuperNode's do; what a device keeps, it
keeps in its context.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import count
from typing import Any

from flwr.app import Context, Error, Message, MessageType, RecordDict
from flwr.serverapp import Grid
from flwr.supercore.run import Run
from flwr.supercore.task_identity import TaskIdentity

from fedsub_client import app
from fedsub_client.saved_state import Saved
from fedsub_client.store import ContextStore
from fedsub_core.config.run_config import RunConfig, to_flat

HANDLERS = {
    MessageType.QUERY: app.query,
    MessageType.TRAIN: app.train,
    MessageType.EVALUATE: app.evaluate,
}


class DeviceGrid(Grid):
    """Simulated SuperNodes, one for each client of the run's data.

    Parameters
    ----------
    config : the run's configuration; `data` is a federation's folder.
    people : how many there are.
    """

    in_process = True

    def __init__(self, config: RunConfig, people: int, **node: Any) -> None:
        settings: Mapping[str, Any] = to_flat(config)
        self.contexts = {
            i + 1: Context(
                0,
                i + 1,
                {"partition-id": i, "num-partitions": people, **node},
                RecordDict(),
                dict(settings),
            )
            for i in range(people)
        }
        self._ids, self._replies = count(1), dict[str, Message]()
        TaskIdentity.run_id, TaskIdentity.task_id, TaskIdentity.node_id = 0, 0, 0

    def saved(self, place: int) -> Saved:
        """Return what the device at `place` keeps."""
        found = ContextStore(self.contexts[place + 1].state).load()
        assert found is not None
        return found

    def set_run(self, run: Run) -> None:
        """Do nothing."""

    @property
    def run(self) -> Run:
        """A run of this process alone."""
        return Run.create_empty(0)

    def create_message(self, *_: Any, **__: Any) -> Message:
        """Do not offer Flower's older way."""
        raise NotImplementedError

    def get_node_ids(self) -> Iterable[int]:
        """All nodes."""
        return list(self.contexts)

    def push_messages(self, messages: Iterable[Message]) -> Iterable[str]:
        """Let each device work; an exception is answered as a SuperNode answers it."""
        ids = []
        for message in messages:
            message.metadata.__dict__["_message_id"] = f"message-{next(self._ids)}"
            ids.append(message.metadata.message_id)
            context = self.contexts[message.metadata.dst_node_id]
            try:
                reply = HANDLERS[message.metadata.message_type](message, context)
            except Exception as error:
                reply = Message(Error(0, str(error)), reply_to=message)
            self._replies[message.metadata.message_id] = reply
        return ids

    def pull_messages(self, message_ids: Iterable[str]) -> Iterable[Message]:
        """Return the replies to these messages, each once."""
        return [self._replies.pop(i) for i in message_ids if i in self._replies]

    def send_and_receive(
        self, messages: Iterable[Message], *, timeout: float | None = None
    ) -> Iterable[Message]:
        """Let the devices work and return their replies."""
        return self.pull_messages(self.push_messages(messages))
