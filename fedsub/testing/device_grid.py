"""Flower's Grid in one process, behind which every person has a device of their own.

Each node's messages go to the ClientApp's handlers, as a SuperNode's do; what a device keeps, it
keeps in its context.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from flwr.app import Context, Error, Message, MessageType, RecordDict

from fedsub.engines.in_process_grid import InProcessGrid
from fedsub_client import app
from fedsub_client.saved_state import Saved
from fedsub_client.store import ContextStore
from fedsub_core.config.run_config import RunConfig, to_flat

HANDLERS = {
    MessageType.QUERY: app.query,
    MessageType.TRAIN: app.train,
    MessageType.EVALUATE: app.evaluate,
}


class DeviceGrid(InProcessGrid):
    """Simulated SuperNodes, one for each client of the run's data.

    Parameters
    ----------
    config : the run's configuration; `data` is a federation's folder.
    """

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
        super().__init__(list(self.contexts))

    def saved(self, place: int) -> Saved:
        """Return the saved state of the device at `place`."""
        found = ContextStore(self.contexts[place + 1].state).load()
        assert found is not None
        return found

    def answers(self, messages: Sequence[Message]) -> Iterator[Message]:
        """Let each device work; an exception is answered as a SuperNode answers it."""
        for message in messages:
            context = self.contexts[message.metadata.dst_node_id]
            try:
                yield HANDLERS[message.metadata.message_type](message, context)
            except Exception as error:
                yield Message(Error(0, str(error)), reply_to=message)
