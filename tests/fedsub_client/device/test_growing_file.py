"""A device's file that grows, changes or is being written while the run goes on."""

import logging
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from flwr.app import MessageType

from fedsub_core.data.client_data import ClientData
from fedsub_core.errors import DataError
from fedsub_core.wire import exchange
from fedsub_core.wire.codec import decode_upload
from fedsub_core.wire.envelope import Envelope


def file_of(device: Any) -> Path:
    return Path(device.node["data"]) / "clients" / "p.npz"


def samples_tested(device: Any, round: int) -> int:
    content = device.ask(MessageType.EVALUATE, device.content(round))
    return int(content.metric_records[exchange.METRICS]["examples"])


def test_a_device_notices_that_its_file_grew(phone: Any, caplog: pytest.LogCaptureFixture) -> None:
    device = phone()
    old, more = device.person(40), device.person(60, seed=3)
    two = old.y < 2  # of the third class, nothing yet
    np.savez(file_of(device), x=old.x[two], y=old.y[two])

    def uploaded(round: int) -> tuple[int, list[int], bool]:
        upload = decode_upload(device.train(round), Envelope("p", round, device.sends))
        classes = np.flatnonzero(upload.bits("classes")).tolist()
        return upload.examples, classes, "prototypes" in upload.tensors

    before = uploaded(1)
    assert before[1] == [0, 1]
    x, y = np.concatenate([old.x[two], more.x]), np.concatenate([old.y[two], more.y])
    np.savez(file_of(device), x=x, y=y)
    with caplog.at_level(logging.INFO, logger="fedsub"):
        after = uploaded(2)
    assert f"client p: {len(y)} samples, {two.sum()} before" in caplog.text
    assert after == (before[0] + 42, [0, 1, 2], True)
    assert samples_tested(device, 2) == len(y) - after[0]

    np.savez(file_of(device), x=x[::-1], y=y[::-1])
    with caplog.at_level(logging.WARNING, logger="fedsub"):
        uploaded(3)
    assert "no longer begins with" in caplog.text


def test_what_is_remembered_of_the_file_lasts(phone: Any) -> None:
    device = phone(n=30)
    device.train(1)
    old, more = device.person(30), device.person(30, seed=4)
    x, y = np.concatenate([old.x, more.x]), np.concatenate([old.y, more.y])
    np.savez(file_of(device), x=x, y=y)
    device.train(2)
    assert device.saved.file.sizes == (30, 60)
    grown = device.parts(ClientData("p", x, y), (30, 60))
    # Nobody is tested on what was trained on before the file grew.
    rows = {row.tobytes() for row in grown.test_x}
    assert not any(row.tobytes() in rows for row in device.parts(old).train_x)
    assert samples_tested(device, 2) == len(grown.test_y)


def test_a_file_that_is_being_written_costs_a_round_and_nothing_else(phone: Any) -> None:
    device = phone()
    device.train(1)
    whole, before = file_of(device).read_bytes(), device.files()
    file_of(device).write_bytes(whole[: len(whole) // 2])
    with pytest.raises(DataError, match="client 'p': its data cannot be used") as refused:
        device.train(2)
    # The server is told no path; the device's log is, by Flower, with what it came from.
    assert "p.npz: cannot be read" in str(refused.value.__cause__)
    assert "npz" not in str(refused.value)
    assert device.files() == before
    file_of(device).write_bytes(whole)
    device.train(2)
    assert device.saved.round == 2
