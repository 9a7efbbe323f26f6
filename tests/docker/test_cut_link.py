"""A SuperNode's link to the fleet is cut in the middle of a round and restored; nothing is lost.

One run meets a short and a long cut, and carries models of the papers' size. A third device, which
no cut hits, tells what a device really sends and gets.
"""

import json
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from fedsub.engines.simulation import train_method
from fedsub.testing.engine_tests import as_in_one_process
from fedsub_client.loaded_model import load_model
from fedsub_client.saved_state import Saved
from fedsub_client.store import STATE_FILE
from fedsub_core.config.run_config import read_config
from fedsub_core.data.federation import Card, ClientData, Federation
from fedsub_server.rundb import RunDatabase

from ..flower_patience import PATH, PATIENT
from ..rounds_on_disk import rounds_on_disk
from .deployment import DEVICES, Deployment, prepared
from .netns import Traffic

pytestmark = [pytest.mark.slow, pytest.mark.release]

SETTINGS: dict[str, str | int | float | bool] = {
    "rounds": 7,
    "lr": 0.05,
    "batch-size": 8,
    "fedsub.relevance": "naive",
    "fedsub.k-selection": "fixed:1",
    "fedsub.fusion": "avg",
    "round-timeout": 240.0,
    "quorum": 1.0,  # the others wait for who is cut off
}
#: What the server counts of messages that got lost; all else must not differ.
LOST = ("messages_resent", "late_replies", "slow_replies")
#: A cut: the device, the round, seconds. Who is away for longer than Flower's patience is given up.
SHORT = ("device-1", 2, 15.0 if PATIENT else 5.0)
LONG = ("device-2", 3, 100.0 if PATIENT else 34.0)
#: Whose link nobody touches.
WATCHED = "device-3"


@dataclass
class Outcome:
    """What a run with cuts left, and what was seen meanwhile."""

    deployment: Deployment
    #: By device: rounds finished when its link was restored, and what devices had saved then.
    waited: dict[str, tuple[int, set[int]]] = field(default_factory=dict)
    #: By device: seconds from the restored link to the next finished round.
    recovered: dict[str, float] = field(default_factory=dict)
    #: What the watched device sent and got by the end of the last round.
    traffic: tuple[Traffic, ...] = ()
    #: And in a second of waiting, bytes.
    waiting: tuple[float, ...] = ()

    @property
    def database(self) -> Path:
        return self.deployment.project.volume("runs") / "cut" / "fedsub" / "state.db"

    def rounds(self) -> list[int]:
        return rounds_on_disk(self.database)

    def until_round(self, round: int) -> None:
        self.deployment.wait_until(lambda: len(self.rounds()) >= round, f"round {round}")

    def saved(self, client: str) -> Saved:
        return Saved.of_bytes((self.deployment.state(client) / STATE_FILE).read_bytes())

    def watched(self) -> tuple[Traffic, ...]:
        return self.deployment.project.networks.traffic(node(WATCHED), "fleet")

    def cut(self, client: str, round: int, seconds: float) -> None:
        """Cut the link while the device trains, so that it finds nobody to reply to."""
        self.until_round(round - 1)
        networks = self.deployment.project.networks
        with self.deployment.kept_at_work(client):
            networks.cut(node(client), "fleet")
        # The first half may still see the others' replies.
        time.sleep(seconds / 2)
        start, before = time.monotonic(), self.watched()
        time.sleep(seconds / 2)
        passed, after = time.monotonic() - start, self.watched()
        self.waiting = tuple((a.size - b.size) / passed for b, a in zip(before, after, strict=True))
        saved = {self.saved(device).round for device in DEVICES}
        self.waited[client] = len(self.rounds()), saved
        networks.restore(node(client), "fleet")
        start = time.monotonic()
        self.until_round(round)
        self.recovered[client] = time.monotonic() - start


def node(client: str) -> str:
    return client.replace("device", "supernode")


def town() -> Federation:
    """People with three features and six classes: the papers' MLP, 3-128-512-6."""
    people = {}
    for seed, client in enumerate(DEVICES):
        stream = np.random.default_rng(seed)
        y = np.tile(np.arange(6), 12)
        x = stream.normal(size=(len(y), 3)) + 2 * np.eye(6, 3)[y] + stream.normal(size=3)
        people[client] = ClientData(client, x.astype(np.float32), y)
    classes = ("sit", "stand", "walk", "run", "up", "down")
    return Federation(Card("town", "a test", classes, ("a", "b", "c")), people)


@pytest.fixture(scope="module")
def outcome(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Outcome]:
    with prepared(tmp_path_factory.mktemp("cut"), town()) as deployment:
        outcome = Outcome(deployment)
        deployment.project.python_path += PATH
        deployment.up()
        settings = {**SETTINGS, "folder": "/runs/cut"}
        pairs = (f"{key}={json.dumps(value)}" for key, value in settings.items())
        number = deployment.submit(" ".join(pairs))
        outcome.cut(*SHORT)
        outcome.cut(*LONG)
        outcome.until_round(int(SETTINGS["rounds"]))
        outcome.traffic = outcome.watched()
        deployment.finish(number)
        deployment.stop()
        yield outcome


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the same run in one process."""
    folder = tmp_path_factory.mktemp("undisturbed")
    # As many stacks as clients, which compute what one device does, to the bit.
    config = read_config(None, SETTINGS | {"beside": "", "threads": len(DEVICES)})
    train_method(config, "fedsub", town(), folder, lambda round: None)
    return folder


@pytest.mark.parametrize(("client", "round", "seconds"), [SHORT, LONG])
def test_the_others_wait_for_a_device_that_is_cut_off(
    outcome: Outcome, measured: list[str], client: str, round: int, seconds: float
) -> None:
    # The device, too, has done its work meanwhile.
    assert outcome.waited[client] == (round - 1, {round})
    recovered = outcome.recovered[client]
    measured.append(f"link cut {seconds:5.0f} s: {recovered:5.1f} s from its return to a round")
    # TCP tries again after pauses that double, so the last may be as long as the cut.
    assert recovered < seconds + 60


def test_only_what_was_given_up_is_sent_again(outcome: Outcome) -> None:
    client, round, _ = LONG
    with RunDatabase(outcome.database) as database:
        counted = {
            (row.round, row.client, row.metric): row.value
            for row in database.metrics()
            if row.metric in LOST
            and row.metric != "slow_replies"  # whoever was cut off is slow, too
        }
    assert counted == {(round, client, "messages_resent"): 1}
    for device in DEVICES:
        said = outcome.deployment.log(f"superexec-{device[-1]}")
        # A device that is asked again does not train again.
        assert said.count("was done before; same answer") == (device == client), device
        assert outcome.deployment.log(node(device)).count("SuperNode ID: ") == 1


def metrics(database: Path) -> dict[Any, float]:
    """All metrics but the bytes of Flower's frame, in which there are ids of its own."""
    with RunDatabase(database) as opened:
        return {
            (row.round, row.client, row.metric, row.label): row.value
            for row in opened.metrics()
            if not row.metric.endswith("_flower")
        }


def test_nothing_is_lost(outcome: Outcome, undisturbed: Path) -> None:
    rounds = int(SETTINGS["rounds"])
    assert outcome.rounds() == list(range(1, rounds + 1))
    ours, theirs = metrics(outcome.database), metrics(undisturbed / "state.db")
    assert {key: v for key, v in ours.items() if key[2] not in LOST} == theirs
    assert sum(key[2] == "loss" for key in ours) == rounds * len(DEVICES)

    with RunDatabase(undisturbed / "state.db") as database, RunDatabase(outcome.database) as cut:
        expected, server = database.load()[1], cut.load()[1]["server"]
    assert_equal(as_in_one_process(server), expected["server"])
    for client in DEVICES:
        saved = outcome.saved(client)
        assert saved.round == rounds and saved.model is not None
        assert_equal(saved.state, expected[f"client/{client}"])
        assert_equal(
            saved.model.params, load_model(undisturbed / "models" / f"{client}.safetensors").params
        )


def assert_equal(ours: dict[str, Any], theirs: dict[str, Any]) -> None:
    assert ours.keys() == theirs.keys()
    for name, tensor in theirs.items():
        assert torch.equal(ours[name], tensor), name


def test_the_bytes_that_we_count_are_those_on_the_wire(
    outcome: Outcome, measured: list[str]
) -> None:
    for way, traffic, waiting in zip(("up", "down"), outcome.traffic, outcome.waiting, strict=True):
        with RunDatabase(outcome.database) as database:
            rows = [r for r in database.metrics(f"bytes_{way}_flower") if r.client == WATCHED]
        ours = sum(row.value for row in rows)
        assert len(rows) == SETTINGS["rounds"] and ours > 1e6
        measured.append(
            f"{way:4} counted {ours:.0f}, TCP carried {traffic.payload / ours:.3f} and frames "
            f"{traffic.size / ours:.3f} times that; {waiting:.0f} B/s while a device waits"
        )
        # Beside our messages: handshakes, requests for each part of one, and minutes of waiting.
        assert traffic.payload == pytest.approx(ours, rel=0.1)
        # With the headers of TCP, IP and Ethernet, and what says that the other way's came.
        assert traffic.size == pytest.approx(ours, rel=0.2)
