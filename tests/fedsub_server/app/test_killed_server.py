"""A server that is killed at any moment goes on with devices that were not, or half."""

from __future__ import annotations

from itertools import count
from pathlib import Path
from typing import Any

import pytest
from fedsub_client.saved import Saved
from flwr.app import Context, Error, Message, MessageType, RecordDict
from flwr.supercore.task_identity import TaskIdentity

from fedsub_client import app as client_app
from fedsub_core.config.run_config import RunConfig, to_flat
from fedsub_core.data.federation import Federation, write_federation
from fedsub_core.wire import exchange


class Killed(BaseException):
    """The server's end, at any moment."""


class Devices:
    """A Grid before devices with folders of their own; every message makes a new device object.

    `kill` is the number of the message to a device before which the server dies.
    """

    numbers = count(1)

    def __init__(self, config: RunConfig, home: Path, kill: int = 0) -> None:
        self.config, self.home, self.kill = config, home, kill
        self.clients = sorted(path.stem for path in Path(config.data, "clients").glob("*.npz"))
        self.runs: list[str] = []
        self.rounds: list[tuple[str, int]] = []
        self._replies: list[Message] = []
        TaskIdentity.run_id, TaskIdentity.task_id, TaskIdentity.node_id = 1, 1, 1

    def get_node_ids(self) -> list[int]:
        return list(range(1, len(self.clients) + 1))

    def push_messages(self, messages: list[Message]) -> list[str]:
        for message in messages:
            message.metadata.__dict__["_message_id"] = f"message-{next(self.numbers)}"
        for message in messages:
            self._replies.append(self._work(message))
        return [message.metadata.message_id for message in messages]

    def pull_messages(self, ids: list[str]) -> list[Message]:
        found = [r for r in self._replies if r.metadata.reply_to_message_id in ids]
        self._replies = [r for r in self._replies if r not in found]
        return found

    def _work(self, message: Message) -> Message:
        kind = message.metadata.message_type
        if kind != MessageType.QUERY:
            self.kill -= 1
            if self.kill == 0:
                raise Killed
            order = message.content.config_records[exchange.ORDER]
            self.runs.append(str(order["run"]))
            self.rounds.append((kind, order["round"]))  # type: ignore[arg-type]
        node = {
            "client-id": self.clients[message.metadata.dst_node_id - 1],
            "data": self.config.data,
            "state-dir": str(self.home),
        }
        context = Context(1, message.metadata.dst_node_id, node, RecordDict(), to_flat(self.config))  # type: ignore[arg-type]
        verbs = {
            MessageType.QUERY: client_app.query,
            MessageType.TRAIN: client_app.train,
            MessageType.EVALUATE: client_app.evaluate,
        }
        try:
            return verbs[kind](message, context)
        except Exception as error:  # as Flower does
            return Message(Error(2, str(error)), reply_to=message)

    def states(self) -> dict[str, Saved]:
        return {
            c: Saved.of_bytes((self.home / c / "state.safetensors").read_bytes())
            for c in self.clients
        }


@pytest.fixture
def data(town: Federation, tmp_path: Path) -> str:
    write_federation(tmp_path / "data", town)
    return str(tmp_path / "data")


WAYS: list[dict[str, Any]] = [
    {"method": "fedsub", "upload-encoding": "delta,int8", "download-encoding": "delta"},
    {"method": "fedavg", "clients-per-round": 2},
    {"method": "fedsub", "split": "unseen", "unseen-share": 0.3, "unseen-rounds": 2},
]


@pytest.mark.parametrize(
    ("way", "kills"),
    [(WAYS[0], [1]), (WAYS[0], [8, 1, 2]), (WAYS[1], [3, 6, 2]), (WAYS[2], [2, 7])],
    ids=str,
)
def test_a_killed_server_goes_on_as_if_it_had_not_been(
    data: str,
    tmp_path: Path,
    way: dict[str, Any],
    kills: list[int],
    configuration: Any,
    serve: Any,
    result: Any,
    assert_same: Any,
) -> None:
    calm, killed = (configuration(data, tmp_path / n, **way) for n in ("calm", "killed"))
    undisturbed = Devices(calm, tmp_path / "calm devices")
    serve(undisturbed, calm)
    runs: list[str] = []
    for kill in kills:
        grid = Devices(killed, tmp_path / "devices", kill)
        with pytest.raises(Killed):
            serve(grid, killed)
        runs += grid.runs
    devices = Devices(killed, tmp_path / "devices")
    serve(devices, killed)
    round, state, metrics, run = result(killed)
    expected = result(calm)
    assert round == expected[0] == 4
    assert_same(state, expected[1])
    assert metrics == expected[2]
    # By its name the devices know that it is still the same run.
    assert set(runs + devices.runs) == {run} and run != expected[3]
    for client, saved in devices.states().items():
        other = undisturbed.states()[client]
        assert (saved.round, saved.reply, saved.seen) == (other.round, other.reply, other.seen)
        assert_same(saved.state, other.state)
        assert_same(saved.model.params, other.model.params)  # type: ignore[union-attr]
    assert not list((tmp_path / "devices").glob("*/previous*"))


def test_a_round_that_devices_had_finished_is_not_trained_again(
    data: str, tmp_path: Path, caplog: pytest.LogCaptureFixture, configuration: Any, serve: Any
) -> None:
    config = configuration(data, tmp_path / "run", rounds=2)
    with pytest.raises(Killed):
        serve(Devices(config, tmp_path / "devices", kill=6), config)  # before cleo's second round
    caplog.clear()
    devices = Devices(config, tmp_path / "devices")
    serve(devices, config)
    assert devices.rounds == [(MessageType.TRAIN, 2)] * 3
    said = [f"client {c}: round 2 was done before" in caplog.text for c in ("anna", "ben", "cleo")]
    assert said == [True, True, False]
    assert f"{tmp_path / 'run'}: going on after round 1" in caplog.text
