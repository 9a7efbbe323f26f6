"""A device whose every message is answered by a new object, as in Flower's processes."""

from __future__ import annotations

from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fedsub_client.saved import Saved
from fedsub_core.wire.memory import Memory
from fedsub_core.wire.rows import remember_rows
from flwr.app import Context, Message, MessageType, RecordDict
from flwr.supercore.task_identity import TaskIdentity

from fedsub_client import app
from fedsub_client.cohort import Cohort, build_learner
from fedsub_client.store import STATE_FILE
from fedsub_core.config.run_config import RunConfig, read_config, to_flat
from fedsub_core.data.card import Card
from fedsub_core.data.client_data import ClientData
from fedsub_core.data.federation import Federation, write_federation
from fedsub_core.data.standardise import moments, scaling
from fedsub_core.wire import exchange, handshake
from fedsub_core.wire.bundles import Download, UnitRows, Upload
from fedsub_core.wire.codec import decode_upload, encode_download
from fedsub_core.wire.envelope import Envelope

CARD = Card("toy", "test", ("a", "b", "c"), ("u", "v"))
SCALING = scaling(moments(np.random.default_rng(9).normal(1, 2, (50, 2)).astype(np.float32)))
IDS = count(1)


def person(n: int = 60, seed: int = 0) -> ClientData:
    rng = np.random.default_rng(seed)
    y = np.arange(n) % 3
    return ClientData("p", rng.normal(y[:, None], 0.5, (n, 2)).astype(np.float32), y)


class Phone:
    """Sends a device messages and plays the server's part of the wire."""

    card, shared = CARD, SCALING
    person = staticmethod(person)

    def __init__(self, folder: Path, **config: Any) -> None:
        given = {"data": "toy", "beside": "", **{k.replace("_", "-"): v for k, v in config.items()}}
        self.config: RunConfig = read_config(None, given)
        self.node: dict[str, Any] = {
            "client-id": "p",
            "data": str(folder / "data"),
            "state-dir": str(folder / "states"),
        }
        self.states = folder / "states" / "p"
        self.learner = build_learner(self.config, self.config.method, CARD, (2,))
        self.scaling = SCALING if self.config.standardise == "federation" else None
        self.memory = Memory.empty(self.learner.model) if self.config.wire.upload.delta else None

    def ask(self, kind: str, content: RecordDict) -> RecordDict:
        """Return the answer of a process that knows nothing but the node's folder."""
        context = Context(1, 1, self.node, RecordDict(), to_flat(self.config))  # type: ignore[arg-type]
        message = Message(content, 1, kind, group_id="1")
        message.metadata.__dict__["_message_id"] = f"m{next(IDS)}"
        verbs = {"train": app.train, "evaluate": app.evaluate, "query": app.query}
        return verbs[kind](message, context).content

    def payload(self, round: int, download: Download, client: str = "p") -> bytes:
        return encode_download(download, client, round, self.config.wire.download, self.memory)

    def content(
        self,
        round: int,
        download: Download | None = None,
        run: str = "run",
        also: bool = False,
        client: str = "p",
    ) -> RecordDict:
        payload = exchange.pack(self.payload(round, download or Download(), client))
        order = exchange.order(round, self.scaling, run, also)
        return RecordDict({exchange.PAYLOAD: payload, exchange.ORDER: order})

    def train(self, round: int, download: Download | None = None, run: str = "run") -> bytes:
        return exchange.unpack(self.ask(MessageType.TRAIN, self.content(round, download, run)))

    def query(self, **said: str) -> dict[str, Any]:
        greeting = handshake.greeting()
        greeting.update(said)
        content = RecordDict({handshake.OPENING: greeting})
        return dict(self.ask(MessageType.QUERY, content).config_records[handshake.OPENING])

    def receive(self, payload: bytes, round: int) -> Download:
        """Return what a server that hears of nobody else might send next."""
        model, size = self.learner.model, 2 if self.config.method == "fedsub" else 0
        envelope = Envelope("p", round, model, size, self.memory)
        upload: Upload = decode_upload(payload, envelope)
        if self.memory is not None:
            if upload.reference == 0:
                self.memory.forget()
            remember_rows(self.memory, upload.layers, round)
        # Half of what came, so that the download changes the device.
        layers = {n: UnitRows(r.units, r.rows / 2) for n, r in upload.layers.items()}
        return Download(layers, {n: np.asarray(a) / 2 for n, a in upload.dense.items()})

    @property
    def saved(self) -> Saved:
        return Saved.of_bytes((self.states / STATE_FILE).read_bytes())

    def files(self) -> dict[str, bytes]:
        return {path.name: path.read_bytes() for path in sorted(self.states.iterdir())}


@pytest.fixture
def phone(tmp_path: Path) -> Any:
    """Return a maker of phones of the same person; those of a folder share their state."""
    TaskIdentity.run_id, TaskIdentity.task_id, TaskIdentity.node_id = 1, 1, 1

    def make(name: str = "one", n: int = 60, **config: Any) -> Phone:
        if not (tmp_path / name).exists():
            write_federation(tmp_path / name / "data", Federation(CARD, {"p": person(n)}))
        return Phone(tmp_path / name, **config)

    return make


@pytest.fixture
def trained(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Rounds that were really trained."""
    rounds: list[int] = []
    fit = Cohort.fit

    def noted(self: Cohort, round: int, *rest: Any) -> Any:
        rounds.append(round)
        return fit(self, round, *rest)

    monkeypatch.setattr(Cohort, "fit", noted)
    return rounds
