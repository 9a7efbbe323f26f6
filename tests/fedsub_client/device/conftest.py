"""A device whose every message is answered by a new object, as in Flower's processes."""

from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from flwr.app import Context, Message, MessageType, RecordDict
from flwr.supercore.task_identity import TaskIdentity

from fedsub_client import app
from fedsub_client.cohort import Cohort
from fedsub_client.new_cohort import make_cohort
from fedsub_client.saved_state import Saved
from fedsub_client.split_client import SplitClient, split_client
from fedsub_client.store import RECORD, STATE_FILE, kept_as
from fedsub_core.config.halves import DeviceSettings
from fedsub_core.config.run_config import RunConfig, read_config, to_flat
from fedsub_core.data.card import Card
from fedsub_core.data.client_data import ClientData
from fedsub_core.data.federation import Federation, write_federation
from fedsub_core.data.standardise import moments, scaling
from fedsub_core.turn import Turn
from fedsub_core.wire import exchange, greeting, handshake
from fedsub_core.wire.bundles import Bundle, Floats
from fedsub_core.wire.codec import Address, decode_upload, encode_download
from fedsub_core.wire.envelope import Envelope
from fedsub_core.wire.exchange import Instructions
from fedsub_core.wire.references import Reference

CARD = Card("toy", "test", ("a", "b", "c"), ("u", "v"))
SCALING = scaling(moments(np.random.default_rng(9).normal(1, 2, (50, 2)).astype(np.float32)))
IDS = count(1)
ROUNDS = 9


def person(n: int = 60, seed: int = 0) -> ClientData:
    rng = np.random.default_rng(seed)
    y = np.arange(n) % 3
    return ClientData("p", rng.normal(y[:, None], 0.5, (n, 2)).astype(np.float32), y)


class Phone:
    """Sends a device messages and plays the server's part of the wire."""

    card, shared = CARD, SCALING
    person = staticmethod(person)

    def __init__(self, folder: Path, simulated: bool = False, **config: Any) -> None:
        given = {"data": "toy", "beside": "", **{k.replace("_", "-"): v for k, v in config.items()}}
        self.config: RunConfig = read_config(None, given)
        self.node: dict[str, Any] = {"data": str(folder / "data")}
        if simulated:
            self.node |= {"partition-id": 0, "num-partitions": 1}
        else:
            self.node |= {"client-id": "p", "state-dir": str(folder / "states")}
        #: What Flower keeps of a simulated node from message to message.
        self.context = RecordDict() if simulated else None
        #: Keys of the run's configuration that a server of a later release lists beside ours.
        self.more: dict[str, Any] = {}
        self.states = folder / "states" / "p"
        self.scaling = SCALING if self.config.standardise.startswith("federation") else None
        of = self.cohort(self.config.method)
        self.sends, self.receives = of.learner.sends, of.receives
        delta = self.config.wire.upload.delta
        self.reference = Reference.empty(self.sends) if delta else None

    def settings(self, method: str = "") -> DeviceSettings:
        return self.config.device_settings(method or self.config.method)

    def parts(self, data: ClientData | None = None, sizes: tuple[int, ...] = ()) -> SplitClient:
        return split_client(data or person(), CARD, self.settings().split, sizes)

    def cohort(self, method: str = "") -> Cohort:
        """Return the same person's cohort, as it is before the first round."""
        return make_cohort(self.settings(method), CARD, [self.parts()])

    def ask(self, kind: str, content: RecordDict) -> RecordDict:
        """Return the answer of a process that knows nothing but the node's folder or context."""
        memory = RecordDict() if self.context is None else self.context
        context = Context(1, 1, self.node, memory, to_flat(self.config) | self.more)
        message = Message(content, 1, kind, group_id="1")
        message.metadata.__dict__["_message_id"] = f"m{next(IDS)}"
        verbs = {"train": app.train, "evaluate": app.evaluate, "query": app.query}
        return verbs[kind](message, context).content

    def told(self, round: int, run: str = "run", also: bool = False, method: str = "") -> Any:
        of = method or self.config.method
        return Instructions(Turn(round, ROUNDS, 0), of, self.scaling, run, also).record()

    def payload(self, round: int, download: Bundle, client: str = "p") -> bytes:
        encoding, address = self.config.wire.download, Address(client, round)
        return encode_download(download, address, self.receives, encoding, self.reference)

    def content(
        self,
        round: int,
        download: Bundle | None = None,
        run: str = "run",
        also: bool = False,
        client: str = "p",
        method: str = "",
    ) -> RecordDict:
        payload = exchange.pack(self.payload(round, download or Bundle(), client))
        told = self.told(round, run, also, method)
        return RecordDict({exchange.PAYLOAD: payload, exchange.TURN: told})

    def train(self, round: int, download: Bundle | None = None, run: str = "run") -> bytes:
        return exchange.unpack(self.ask(MessageType.TRAIN, self.content(round, download, run)))

    def query(self, **said: Any) -> dict[str, Any]:
        server = greeting.greeting()
        server.update(said)
        content = RecordDict({handshake.HANDSHAKE: server})
        return dict(self.ask(MessageType.QUERY, content).config_records[handshake.HANDSHAKE])

    def receive(self, payload: bytes, round: int) -> Bundle:
        """Return what a server that hears of nobody else might send next."""
        upload = decode_upload(payload, Envelope("p", round, self.sends, self.reference))
        if self.reference is not None:
            self.reference.remember(upload, round)
        # Half of what came, so that the download changes the device.
        halves = {
            name: replace(part, values=part.values * np.float32(0.5))
            for name, part in upload.tensors.items()
            if name in self.receives and isinstance(part, Floats)
        }
        return Bundle(version=upload.version, tensors=halves)

    @property
    def saved(self) -> Saved:
        return self.saved_of(self.config.method)

    def saved_of(self, method: str) -> Saved:
        other = "" if method == self.config.method else method
        if self.context is not None:
            record = self.context.array_records[kept_as(RECORD, other)]
            return Saved.of_bytes(record[exchange.PAYLOAD].data)
        return Saved.of_bytes((self.states / kept_as(STATE_FILE, other)).read_bytes())

    def files(self) -> dict[str, bytes]:
        return {path.name: path.read_bytes() for path in sorted(self.states.iterdir())}


@pytest.fixture
def phone(tmp_path: Path) -> Any:
    """Return a maker of phones of the same person; those of a folder share their state."""
    TaskIdentity.run_id, TaskIdentity.task_id, TaskIdentity.node_id = 1, 1, 1

    def make(name: str = "one", n: int = 60, simulated: bool = False, **config: Any) -> Phone:
        if not (tmp_path / name).exists():
            write_federation(tmp_path / name / "data", Federation(CARD, {"p": person(n)}))
        return Phone(tmp_path / name, simulated, **config)

    return make


@pytest.fixture
def trained(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Rounds that were really trained."""
    rounds: list[int] = []
    fit = Cohort.fit

    def noted(self: Cohort, turn: Turn, *rest: Any) -> Any:
        rounds.append(turn.round)
        return fit(self, turn, *rest)

    monkeypatch.setattr(Cohort, "fit", noted)
    return rounds
