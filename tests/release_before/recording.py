"""What a release leaves behind and says, kept as the next one's past.

Run once from the root of a release's tree, before its version is raised:
``python -m tests.release_before.recording``. It writes ``recorded/`` beside this file anew: what
two devices and a server said of themselves, and what they kept after two rounds of a run.
"""

import json
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from flwr.app import Context, Message, MessageType, RecordDict

from fedsub.testing.device_grid import DeviceGrid
from fedsub_core.config.run_config import RunConfig, read_config, to_flat
from fedsub_core.data.federation import Card, ClientData, Federation, write_federation
from fedsub_core.wire.handshake import HANDSHAKE
from fedsub_server.app import main

RECORDED = Path(__file__).parent / "recorded"
CLIENTS, ROUNDS = ("ann", "bob"), 2


class Devices(DeviceGrid):
    """Devices that keep their state in a folder, and what is said in the handshake."""

    def __init__(self, config: RunConfig, place: Path) -> None:
        super().__init__(config, len(CLIENTS))
        for client, context in zip(CLIENTS, self.contexts.values(), strict=True):
            data, states = str(place / "data"), str(place / "states")
            context.node_config = {"client-id": client, "data": data, "state-dir": states}
        #: What the server said to each device, and what that answered.
        self.said: dict[str, dict[str, Any]] = {}

    def answers(self, messages: Sequence[Message]) -> Iterator[Message]:
        """Note the handshake."""
        for message, reply in zip(messages, super().answers(messages), strict=True):
            if message.metadata.message_type == MessageType.QUERY and not reply.has_error():
                asked, got = (dict(m.content.config_records[HANDSHAKE]) for m in (message, reply))
                self.said[str(got["client"])] = {"server": asked, "device": got}
            yield reply


def configuration(place: Path, rounds: int = ROUNDS) -> RunConfig:
    """Return the configuration of a run whose data and folder lie in `place`."""
    keys: dict[str, Any] = {"method": "fedsub", "beside": "", "hidden": "6", "rounds": rounds}
    keys |= {"data": str(place / "data"), "folder": str(place / "run"), "device": "cpu"}
    keys |= {"threads": 1, "upload-encoding": "delta", "join-timeout": 5.0, "round-timeout": 5.0}
    return read_config(None, keys)


def serve(grid: DeviceGrid, config: RunConfig) -> None:
    """Run the server's app until all rounds are done."""
    main(grid, Context(1, 0, {}, RecordDict(), to_flat(config)))


def people() -> Federation:
    """Return two people with a few samples each."""
    stream, clients = np.random.default_rng(5), {}
    for i, name in enumerate(CLIENTS):
        y = np.arange(18 + 6 * i) % 3
        x = stream.normal(y[:, None] + i, 0.7, (len(y), 2)).astype(np.float32)
        clients[name] = ClientData(name, x, y)
    return Federation(Card("before", "a test", ("a", "b", "c"), ("u", "v")), clients)


def record(place: Path) -> None:
    """Write what two rounds leave into an empty folder, but nothing that any run can make anew."""
    write_federation(place / "data", people())
    config = configuration(place)
    grid = Devices(config, place)
    serve(grid, config)
    kept = ("state.db", "data.json", "state.safetensors")
    for path in [*(place / "run").rglob("*"), *(place / "states").rglob("*")]:
        if path.is_file() and path.name not in kept:
            path.unlink()
    (place / "handshake.json").write_text(json.dumps(grid.said, indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    shutil.rmtree(RECORDED, ignore_errors=True)
    record(RECORDED)
