"""A SuperNode's link to the fleet is cut in the middle of a round and restored; nothing is lost.

One run meets a short and a long cut, and carries models of the papers' size. A third device, which
no cut hits, tells what a device really sends and gets.
"""

from __future__ import annotations

import fcntl
import json
import os
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from fedsub.simulation import train_method
from fedsub_client.saved import Saved
from fedsub_client.store import STATE_FILE
from fedsub_core.config import read_config
from fedsub_core.federation import Card, ClientData, Federation
from fedsub_server.rundb import RunDatabase

from .deployment import DEVICES, Deployment, prepared

pytestmark = pytest.mark.slow

SETTINGS: dict[str, str | int | float | bool] = {
    "rounds": 8,
    "lr": 0.05,
    "batch-size": 8,
    "fedsub.relevance": "naive",
    "fedsub.k-selection": "fixed:1",
    "fedsub.fusion": "avg",
    "round-timeout": 240.0,
}
#: What the server counts of messages that got lost; all else must not differ.
LOST = ("messages_resent", "late_replies")
#: A cut: the device, the round, seconds.
SHORT, LONG = ("device-1", 2, 15.0), ("device-2", 4, 100.0)
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
    #: Bytes that the watched device sent and got: in the whole run, and for a second of waiting.
    carried: tuple[int, int] = (0, 0)
    waiting: tuple[float, float] = (0.0, 0.0)

    @property
    def database(self) -> Path:
        return self.deployment.project.volume("runs") / "cut" / "fedsub" / "state.db"

    def rounds(self) -> list[int]:
        if not self.database.exists():
            return []
        with closing(sqlite3.connect(f"file:{self.database}?mode=ro", uri=True)) as database:
            return [round for (round,) in database.execute("SELECT round FROM rounds")]

    def until_round(self, round: int) -> None:
        self.deployment.wait_until(lambda: len(self.rounds()) >= round, f"round {round}")

    def folder(self, client: str) -> Path:
        return self.deployment.project.volume(f"state-{client[-1]}") / client

    def saved(self, client: str) -> Saved:
        return Saved.of_bytes((self.folder(client) / STATE_FILE).read_bytes())

    def watched(self) -> tuple[int, int]:
        return self.deployment.project.networks.carried(node(WATCHED), "fleet")

    def cut(self, client: str, round: int, seconds: float) -> None:
        """Cut the link while the device trains, so that it finds nobody to reply to."""
        self.until_round(round - 1)
        networks = self.deployment.project.networks
        with kept_at_work(self.folder(client) / "lock") as inode:
            self.deployment.wait_until(lambda: is_awaited(inode), f"{client} at work")
            networks.cut(node(client), "fleet")
        start, before = time.monotonic(), self.watched()
        time.sleep(seconds)
        passed, after = time.monotonic() - start, self.watched()
        if (client, round, seconds) == LONG:
            sent, got = (b - a for a, b in zip(before, after, strict=True))
            self.waiting = sent / passed, got / passed
        rounds = {self.saved(device).round for device in DEVICES}
        self.waited[client] = len(self.rounds()), rounds
        networks.restore(node(client), "fleet")
        start = time.monotonic()
        self.until_round(round)
        self.recovered[client] = time.monotonic() - start


def node(client: str) -> str:
    return client.replace("device", "supernode")


@contextmanager
def kept_at_work(lock: Path) -> Iterator[int]:
    """Keep a device from training, by the lock on its state; yield the lock's inode."""
    with lock.open("r+") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield os.fstat(file.fileno()).st_ino


def is_awaited(inode: int) -> bool:
    waiting = (line for line in Path("/proc/locks").read_text().splitlines() if "->" in line)
    return any(f":{inode} " in line for line in waiting)


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
        deployment.up()
        settings = {**SETTINGS, "folder": "/runs/cut"}
        pairs = (f"{key}={json.dumps(value)}" for key, value in settings.items())
        number = deployment.submit(" ".join(pairs))
        outcome.cut(*SHORT)
        outcome.cut(*LONG)
        outcome.until_round(int(SETTINGS["rounds"]))
        outcome.carried = outcome.watched()
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
    outcome: Outcome, client: str, round: int, seconds: float
) -> None:
    assert outcome.waited[client] == (round - 1, {round})
    print(
        f"{client}: cut {seconds:g} s; round {round} ends {outcome.recovered[client]:.1f} s later"
    )
    assert outcome.recovered[client] < 120


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
    print({key: value for key, value in ours.items() if key[2] in LOST})
    assert {key: v for key, v in ours.items() if key[2] not in LOST} == theirs
    assert sum(key[2] == "loss" for key in ours) == rounds * len(DEVICES)

    with RunDatabase(undisturbed / "state.db") as database, RunDatabase(outcome.database) as cut:
        expected, server = database.load()[1], cut.load()[1]["server"]
    assert_equal(server, expected["server"])
    for client in DEVICES:
        saved = outcome.saved(client)
        assert saved.round == rounds and saved.model is not None
        assert_equal(saved.state, expected[f"client/{client}"])
        assert_equal(
            saved.model.params, load_file(undisturbed / "models" / f"{client}.safetensors")
        )


def assert_equal(ours: dict[str, Any], theirs: dict[str, Any]) -> None:
    assert ours.keys() == theirs.keys()
    for name, tensor in theirs.items():
        assert torch.equal(ours[name], tensor), name


def test_the_bytes_that_we_count_are_those_on_the_wire(outcome: Outcome) -> None:
    counted = dict.fromkeys(("bytes_up_flower", "bytes_down_flower"), 0.0)
    with RunDatabase(outcome.database) as database:
        for metric in counted:
            rows = database.metrics(metric)
            counted[metric] = sum(row.value for row in rows if row.client == WATCHED)
    for (metric, ours), real, waiting in zip(
        counted.items(), outcome.carried, outcome.waiting, strict=True
    ):
        print(
            f"{metric}: {ours:.0f}, on the wire {real}, {real / ours:.3f}; {waiting:.0f} B/s waiting"
        )
        assert real == pytest.approx(ours, rel=0.1)
