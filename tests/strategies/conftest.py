"""Small federations that really train, and a Grid that tampers with what the clients reply."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from fedsub_core.wire.v1 import exchange_pb2 as pb
from flwr.app import ConfigRecord, Message, MessageType
from flwr.serverapp import Grid
from flwr.supercore.run import Run
from torch import Tensor

from fedsub.engines.cohort_grid import CohortGrid
from fedsub.engines.simulation import build_grid, build_strategy
from fedsub_core.config.run_config import RunConfig
from fedsub_core.data.federation import Card, ClientData, Federation
from fedsub_core.methods.table import method
from fedsub_core.metrics import MetricRow
from fedsub_core.wire import exchange
from fedsub_core.wire.frame import open_frame
from strategies.rounds.handshake import FEDERATION
from strategies.rounds.strategy import PersonalizedStrategy


@dataclass(frozen=True)
class Reply:
    """One reply on its way to the server: to change, to replace or to drop (None)."""

    kind: str
    client: str
    round: int
    message: Message
    asked: Message

    def upload(self) -> Any:
        """Return the upload that the reply carries, as its protobuf message."""
        return pb.Upload.FromString(_opened(self.message))

    def with_payload(self, payload: bytes) -> Message:
        """Return the reply with another payload."""
        self.message.content[exchange.PAYLOAD] = exchange.pack(payload)
        return self.message


Tamper = Callable[[Reply], Message | None]


def _opened(message: Message) -> bytes:
    return open_frame(exchange.unpack(message.content), 2**30, AssertionError)


class TamperedGrid(Grid):
    """A CohortGrid behind which somebody reads, changes or drops replies, or turns their order."""

    def __init__(self, grid: CohortGrid, tamper: Tamper | None, backwards: bool) -> None:
        self.grid, self.tamper, self.backwards = grid, tamper, backwards
        self.trained: list[tuple[int, tuple[str, ...]]] = []
        self.evaluated: list[tuple[int, tuple[str, ...]]] = []
        self.scaling: ConfigRecord | None = None
        self.downloads: dict[tuple[int, str], Any] = {}
        self.uploads: dict[tuple[int, str], Any] = {}
        self.waiting: list[Message] = []

    def set_run(self, run: Run) -> None:
        raise NotImplementedError

    @property
    def run(self) -> Run:
        return self.grid.run

    def create_message(self, *_: Any, **__: Any) -> Message:
        raise NotImplementedError

    def get_node_ids(self) -> Iterable[int]:
        return self.grid.get_node_ids()

    def send_and_receive(
        self, messages: Iterable[Message], *, timeout: float | None = None
    ) -> Iterable[Message]:
        raise NotImplementedError

    def pull_messages(self, message_ids: Iterable[str]) -> Iterable[Message]:
        wanted = set(message_ids)
        found = [m for m in self.waiting if m.metadata.reply_to_message_id in wanted]
        self.waiting = [m for m in self.waiting if m not in found]
        return found

    def push_messages(self, messages: Iterable[Message]) -> Iterable[str]:
        sent = list(messages)
        opened = {id(m): self._open(m) for m in sent}
        if sent and sent[0].metadata.message_type != MessageType.QUERY:
            training = sent[0].metadata.message_type == MessageType.TRAIN
            log = self.trained if training else self.evaluated
            log.append((opened[id(sent[0])][1], tuple(opened[id(m)][0] for m in sent)))
        replies = list(self.grid.send_and_receive(sent))
        by_id = {m.metadata.message_id: m for m in sent}
        passed = []
        for message in replies:
            asked = by_id[message.metadata.reply_to_message_id]
            client, round = opened[id(asked)]
            reply = Reply(asked.metadata.message_type, client, round, message, asked)
            if reply.kind == MessageType.TRAIN and not message.has_error():
                self.uploads[round, client] = reply.upload()
            answer = self.tamper(reply) if self.tamper is not None else message
            if answer is not None:
                passed.append(answer)
        self.waiting += passed[::-1] if self.backwards else passed
        return list(by_id)

    def _open(self, message: Message) -> tuple[str, int]:
        if message.metadata.message_type == MessageType.QUERY:
            return "", 0
        self.scaling = message.content.config_records[exchange.ORDER]
        download = pb.Download.FromString(_opened(message))
        if message.metadata.message_type == MessageType.TRAIN:
            self.downloads[download.round, download.client_id] = download
        return download.client_id, download.round


@dataclass
class Played:
    """What a run of a few rounds left: strategy, grid, metrics and the state after each round."""

    strategy: PersonalizedStrategy
    grid: TamperedGrid
    rows: list[MetricRow] = field(default_factory=list)
    states: list[dict[str, Tensor]] = field(default_factory=list)

    def client_states(self) -> dict[str, dict[str, Tensor]]:
        return self.grid.grid.state()

    def metric(self, name: str) -> dict[tuple[int, str], float]:
        return {(r.round, r.client): r.value for r in self.rows if r.metric == name}


Play = Callable[..., Played]


@pytest.fixture
def people() -> Callable[..., Federation]:
    """Make a federation of distinct people, each with the classes it is given, in memory."""

    def make(
        classes: Sequence[Sequence[int]] = ((0, 1, 2),) * 4, samples: int = 25, seed: int = 3
    ) -> Federation:
        stream = np.random.default_rng(seed)
        names = tuple(f"class {c}" for c in range(3))
        clients = {}
        for i, held in enumerate(classes):
            # Sizes differ, so that stacks are padded and means are weighted.
            y = np.repeat(np.array(held, np.int64), samples + 4 * i)
            x = stream.normal(size=(len(y), 4)) + 2 * np.eye(3, 4)[y] + stream.normal(size=4)
            name = f"p{i + 1}"
            clients[name] = ClientData(name, x.astype(np.float32), y)
        return Federation(Card("people", "a test", names, ("a", "b", "c", "d")), clients)

    return make


@pytest.fixture
def play() -> Iterable[Play]:
    """Run a method's rounds on a federation, with replies tampered with on their way."""
    grids: list[CohortGrid] = []

    def run(
        federation: Federation,
        name: str = "fedsub",
        tamper: Tamper | None = None,
        hyper: dict[str, Any] | None = None,
        after_round: Callable[[int, PersonalizedStrategy], None] | None = None,
        backwards: bool = False,
        **keys: Any,
    ) -> Played:
        clients = federation.clients
        own = method(name).hyperparameters(**(hyper or {}))
        # The engine answers at once: whoever has not answered after a moment never will.
        waits = dict(round_timeout=0.3, join_timeout=0.3, quorum=0.0)
        keys = dict[str, Any](rounds=2, device="cpu", threads=1, **waits) | keys
        config = RunConfig(method=name, beside="", hyper={name: own}, **keys)
        if backwards:
            federation = Federation(federation.card, {})
            federation.clients.update(reversed(clients.items()))
        grid = build_grid(config, name, federation)
        grids.append(grid)
        played = Played(build_strategy(config, name), TamperedGrid(grid, tamper, backwards))

        def note(round: int, state: dict[str, Tensor], rows: Sequence[MetricRow]) -> None:
            played.rows.extend(rows)
            # What was agreed on before the first round is not the method's.
            own = {key: t.clone() for key, t in state.items() if not key.startswith(FEDERATION)}
            played.states.append(own)
            if after_round is not None:
                after_round(round, played.strategy)

        played.strategy.on_round = note
        played.strategy.start(played.grid)
        return played

    yield run
    for grid in grids:
        grid.close()
