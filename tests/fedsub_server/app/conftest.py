"""Runs of the server app on a small town, and what they leave."""

from collections.abc import Iterable, Iterator, Mapping
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from flwr.app import Context, Error, Message, MessageType, RecordDict
from flwr.supercore.task_identity import TaskIdentity

from fedsub.engines.cohort_grid import CohortGrid
from fedsub.engines.simulation import build_grid
from fedsub_client import app as client_app
from fedsub_client.saved_state import Saved
from fedsub_client.store import RECORD, STATE_FILE
from fedsub_core.config.run_config import RunConfig, read_config, to_flat
from fedsub_core.data.federation import Card, ClientData, Federation, write_federation
from fedsub_core.wire import exchange
from fedsub_server.app import main
from fedsub_server.resuming import SERVER
from fedsub_server.rundb import RunDatabase

from ...strategies.partial_grid import PartialGrid


class Killed(BaseException):
    """The server's end, at any moment."""


class Devices(PartialGrid):
    """A Grid before devices that are new objects for every message, as in Flower's processes.

    Parameters
    ----------
    home : folder of the devices' own states; None: simulated nodes, which keep theirs here.
    kill : number of the message to train or evaluate before which the server dies.
    nodes : of them; 0: one for each person.
    """

    numbers = count(1)

    def __init__(
        self, config: RunConfig, home: Path | None = None, kill: int = 0, nodes: int = 0
    ) -> None:
        self.config, self.home, self.kill = config, home, kill
        self.clients = sorted(path.stem for path in Path(config.data, "clients").glob("*.npz"))
        self.contexts = [RecordDict() for _ in self.clients[: nodes or None]]
        #: What was asked for, in order: run, kind of message, method, round.
        self.asked: list[tuple[str, str, str, int]] = []
        #: Clients whose node answers a question for its model with an error, or never; and what
        #: some answer instead of it.
        self.failing: set[str] = set()
        self.instead: dict[str, RecordDict] = {}
        self.silent: set[str] = set()
        self._replies: list[Message] = []
        TaskIdentity.run_id, TaskIdentity.task_id, TaskIdentity.node_id = 1, 1, 1

    def get_node_ids(self) -> list[int]:
        return list(range(1, len(self.contexts) + 1))

    def push_messages(self, messages: Iterable[Message]) -> list[str]:
        messages = list(messages)
        for message in messages:
            message.metadata.__dict__["_message_id"] = f"message-{next(self.numbers)}"
        for message in messages:
            if (reply := self._work(message)) is not None:
                self._replies.append(reply)
        return [message.metadata.message_id for message in messages]

    def pull_messages(self, message_ids: Iterable[str]) -> list[Message]:
        ids = set(message_ids)
        found = [r for r in self._replies if r.metadata.reply_to_message_id in ids]
        self._replies = [r for r in self._replies if r not in found]
        return found

    def _work(self, message: Message) -> Message | None:
        kind, place = message.metadata.message_type, message.metadata.dst_node_id - 1
        client = self.clients[place]
        if kind != MessageType.QUERY:
            self.kill -= 1
            if self.kill == 0:
                raise Killed
            told = exchange.read_instructions(message.content.config_records[exchange.TURN])
            self.asked.append((told.run, kind, told.method, told.turn.round))
        elif exchange.MODEL in message.content:
            self.asked.append(("", kind, client, 0))
            if client in self.silent:
                return None
            if client in self.instead:
                return Message(self.instead[client], reply_to=message)
            if client in self.failing:
                return Message(Error(2, "a bad day"), reply_to=message)
        node: dict[str, Any] = {"data": self.data_of(client)}
        if self.home is None:
            node |= {"partition-id": place, "num-partitions": len(self.contexts)}
            memory = self.contexts[place]
        else:
            node |= {"client-id": client, "state-dir": str(self.home)}
            memory = RecordDict()
        context = Context(1, place + 1, node, memory, to_flat(self.config))
        verbs = {
            MessageType.QUERY: client_app.query,
            MessageType.TRAIN: client_app.train,
            MessageType.EVALUATE: client_app.evaluate,
        }
        try:
            return verbs[kind](message, context)
        except Exception as error:  # as Flower does
            return Message(Error(2, str(error)), reply_to=message)

    def data_of(self, client: str) -> str:
        """Return the folder of a client's data."""
        return self.config.data

    def states(self) -> dict[str, Saved]:
        """Return what each device keeps."""
        if self.home is None:
            records = (context.array_records[RECORD] for context in self.contexts)
            blocks = [record[exchange.PAYLOAD].data for record in records]
        else:
            blocks = [(self.home / c / STATE_FILE).read_bytes() for c in self.clients]
        return dict(zip(self.clients, map(Saved.of_bytes, blocks), strict=True))


@pytest.fixture(autouse=True)
def _no_reports(monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs end without a report, which takes seconds, unless a test wants it."""
    monkeypatch.setattr("fedsub_server.app.write_reports", lambda folder: None)


@pytest.fixture
def devices() -> type[Devices]:
    """The devices' class."""
    return Devices


@pytest.fixture
def killed() -> type[Killed]:
    """What a killed server raises."""
    return Killed


@pytest.fixture
def town() -> Federation:
    stream = np.random.default_rng(5)
    clients = {}
    for i, name in enumerate(("anna", "ben", "cleo")):
        y = np.arange(24 + 6 * i) % 3
        x = (stream.normal(y[:, None] + i, 0.7, (len(y), 2))).astype(np.float32)
        clients[name] = ClientData(name, x, y)
    return Federation(Card("town", "a test", ("a", "b", "c"), ("u", "v")), clients)


@pytest.fixture
def data(town: Federation, tmp_path: Path) -> str:
    """The town's folder."""
    write_federation(tmp_path / "data", town)
    return str(tmp_path / "data")


@pytest.fixture
def configuration() -> Any:
    """Make the configuration of a run in a folder."""

    def run(data: str, folder: Path, /, **keys: Any) -> RunConfig:
        given: dict[str, Any] = {"data": data, "folder": str(folder), "rounds": 4}
        given |= {"round-timeout": 5.0, "join-timeout": 5.0}
        given |= {"beside": "", "device": "cpu", "threads": 1, "evaluate-every": 1}
        return read_config(None, given | keys)

    return run


@pytest.fixture
def serve() -> Any:
    """Run the app."""

    def run(grid: Any, config: RunConfig) -> None:
        main(grid, Context(1, 0, {}, RecordDict(), to_flat(config)))

    return run


@pytest.fixture
def result() -> Any:
    """Read what a run has left."""

    def run(
        config: RunConfig, method: str = ""
    ) -> tuple[int, dict[str, torch.Tensor], list[Any], str]:
        """Return the last round, the server's state, all metrics and the run's name."""
        path = Path(config.folder) / (method or config.method) / "state.db"
        with RunDatabase(path) as database:
            round, state = database.load()
            return round, dict(state[SERVER]), list(database.metrics()), database.meta()["run"]

    return run


@pytest.fixture
def assert_same() -> Any:
    """Check that states are equal to the bit."""

    def run(one: Mapping[str, torch.Tensor], other: Mapping[str, torch.Tensor]) -> None:
        assert one.keys() == other.keys()
        for name, tensor in one.items():
            assert torch.equal(tensor, other[name]), name

    return run


@pytest.fixture
def cohort(town: Federation) -> Iterator[Any]:
    """Make the town in one process."""
    made: list[CohortGrid] = []

    def make(config: RunConfig) -> CohortGrid:
        made.append(build_grid(config, config.method, town))
        return made[-1]

    yield make
    for grid in made:
        grid.close()
