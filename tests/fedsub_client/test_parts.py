"""A client's parts, round by round; and what a device notices of its file."""

from __future__ import annotations

import logging
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from fedsub_client.parts import Seen, split_client
from flwr.app import ConfigRecord, Context, Message, MessageType, RecordDict
from flwr.supercore.task_identity import TaskIdentity

from fedsub_client import app
from fedsub_client.cohort import Cohort, build_learner
from fedsub_client.store import RECORD
from fedsub_core.config.run_config import from_flat, read_config, to_flat
from fedsub_core.data.card import Card
from fedsub_core.data.client_data import ClientData
from fedsub_core.data.federation import Federation, write_federation
from fedsub_core.errors import DataError
from fedsub_core.models.chain import Model
from fedsub_core.wire import exchange
from fedsub_core.wire.bundles import Download
from fedsub_core.wire.codec import decode_upload, encode_download
from fedsub_core.wire.envelope import Envelope

CARD = Card("toy", "test", ("a", "b", "c"), ("u", "v"))
CONFIG = read_config(None, {"data": "toy", "beside": ""})


def person(n: int = 60, seed: int = 0, since: bool = False) -> ClientData:
    rng = np.random.default_rng(seed)
    y = np.arange(n) % 3
    x = rng.normal(y[:, None], 0.5, (n, 2)).astype(np.float32)
    return ClientData("p", x, y, None, np.where(y == 2, 5, 0) if since else None)


def test_what_a_client_has_in_every_round() -> None:
    parts = split_client(person(since=True), CARD, CONFIG)
    whole = split_client(person(), CARD, CONFIG)
    assert [parts.held(r) for r in (0, 1, 4, 5, 9)] == [(28, 12)] * 3 + [(42, 18)] * 2
    assert set(parts.at(4).train_y) == set(parts.at(4).test_y) == {0, 1}
    for name in ("train_x", "train_y", "test_x", "test_y"):
        assert np.array_equal(getattr(parts.at(5), name), getattr(whole, name))
    assert whole.at(1) is whole


def test_a_cohort_trains_and_tests_what_each_client_has() -> None:
    clients = [split_client(person(since=True), CARD, CONFIG)]
    clients.append(replace(split_client(person(seed=1), CARD, CONFIG), client="q"))
    learner = build_learner(CONFIG, "fedsub", CARD, (2,))
    cohort = Cohort(learner, CARD, clients, "none")
    assert [o.examples for o in cohort.openings()] == [28, 42]
    held = []
    for round in (1, 4, 5):
        uploads = cohort.fit(round, None, [0, 1], [Download(), Download()])
        held.append((uploads[0].examples, uploads[0].labels.tolist(), uploads[1].examples))
        tested = cohort.evaluate(round, None, [0, 1], [Download(), Download()]).examples
        assert tested.tolist() == [12 if round < 5 else 18, 18]
    assert held == [(28, [0, 1], 42), (28, [0, 1], 42), (42, [0, 1, 2], 42)]


def test_rounds_with_late_data_equal_a_device_alone() -> None:
    clients = [split_client(person(since=True), CARD, CONFIG)]
    clients.append(replace(split_client(person(90, seed=1), CARD, CONFIG), client="q"))
    learner = build_learner(CONFIG, "fedsub", CARD, (2,))
    both, alone = Cohort(learner, CARD, clients), Cohort(learner, CARD, clients[:1])
    for round in range(1, 7):
        both.fit(round, None, [0, 1], [Download(), Download()])
        alone.fit(round, None, [0], [Download()])
    for name, tensor in alone.state.items():
        torch.testing.assert_close(tensor[0], both.state[name][0], atol=1e-6, rtol=0)


def test_a_client_without_data_in_round_one_is_refused() -> None:
    late = replace(person(), since=np.where(np.arange(60) < 1, 0, 9))
    with pytest.raises(DataError, match=r"client 'p': in round 1 it has .* expected one of each"):
        split_client(late, CARD, CONFIG)


def test_a_device_tells_growth_from_a_changed_file() -> None:
    small, big = person(30), person(60)
    big = replace(big, x=np.concatenate([small.x, big.x[30:]]))
    seen = Seen.first(small)
    assert seen.look(small) is seen
    grown = seen.look(big)
    assert grown is not None and grown.sizes == (30, 60)
    assert grown.look(big) is grown
    assert grown.look(small) is None
    assert seen.look(replace(big, y=1 - big.y.clip(0, 1))) is None
    touched = big.x.copy()
    touched[3, 1] += 1
    assert seen.look(replace(big, x=touched)) is None


@pytest.fixture
def device(tmp_path: Path) -> Context:
    data = person(60)
    first = replace(data, x=data.x[:40][data.y[:40] < 2], y=data.y[:40][data.y[:40] < 2])
    write_federation(tmp_path / "data", Federation(CARD, {"p": first}))
    TaskIdentity.run_id, TaskIdentity.task_id, TaskIdentity.node_id = 1, 1, 1
    run = {**to_flat(CONFIG), "standardise": "none"}
    node = {"client-id": "p", "data": str(tmp_path / "data")}
    return Context(1, 1, node, RecordDict(), run)  # type: ignore[arg-type]


def ask(device: Context, round: int, kind: str = MessageType.TRAIN) -> RecordDict:
    payload = encode_download(Download(), "p", round, from_flat(device.run_config).wire.download)
    order: ConfigRecord = exchange.order(round, None)
    content = RecordDict({exchange.PAYLOAD: exchange.pack(payload), exchange.ORDER: order})
    message = Message(content, 1, kind, group_id=str(round))
    message.metadata.__dict__["_message_id"] = f"m{round}{time.monotonic_ns()}"
    work = {MessageType.TRAIN: app.train, MessageType.EVALUATE: app.evaluate}[kind]
    return work(message, device).content


def model_of(device: Context) -> Model:
    return build_learner(from_flat(device.run_config), "fedsub", CARD, (2,)).model


def test_a_device_notices_that_its_file_grew(
    device: Context, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    def uploaded(round: int) -> tuple[int, list[int], bool]:
        envelope = Envelope("p", round, model_of(device), 2)
        upload = decode_upload(exchange.unpack(ask(device, round)), envelope)
        return upload.examples, upload.labels.tolist(), bool(upload.prototypes)

    file = tmp_path / "data" / "clients" / "p.npz"
    before = uploaded(1)
    assert before[1] == [0, 1]
    old = dict(np.load(file))
    more = person(60, seed=3)
    x, y = np.concatenate([old["x"], more.x]), np.concatenate([old["y"], more.y])
    np.savez(file, x=x, y=y)
    with caplog.at_level(logging.INFO, logger="fedsub"):
        after = uploaded(2)
    assert f"client p: {len(y)} samples, {len(old['y'])} before" in caplog.text
    assert after == (before[0] + 42, [0, 1, 2], True)
    metrics = ask(device, 2, MessageType.EVALUATE).metric_records[exchange.METRICS]
    assert metrics["examples"] == len(y) - after[0]

    np.savez(file, x=x[::-1], y=y[::-1])
    with caplog.at_level(logging.WARNING, logger="fedsub"):
        uploaded(3)
    assert "no longer begins with" in caplog.text


def test_a_file_that_is_being_written_costs_a_round_and_nothing_else(
    device: Context, tmp_path: Path
) -> None:
    file = tmp_path / "data" / "clients" / "p.npz"
    ask(device, 1)
    whole, state = file.read_bytes(), device.state[RECORD]
    file.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(DataError, match=r"p\.npz: cannot be read"):
        ask(device, 2)
    assert device.state[RECORD] is state
    file.write_bytes(whole)
    ask(device, 3)
