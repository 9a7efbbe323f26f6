"""Full disks, damaged states and states of somebody else."""

import errno
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from flwr.app import MessageType

from fedsub.testing.refusals import refused
from fedsub_client.store import STATE_FILE
from fedsub_core.errors import RunError


def test_a_full_disk_costs_a_round_and_nothing_else(
    phone: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    device, undisturbed = phone(), phone("two")
    download = device.receive(device.train(1), 1)
    undisturbed.train(1)
    before = device.files()

    def fail(_: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as full:
        full.setattr(os, "fsync", fail)
        for run in ("run", "run", "other"):
            with refused(RunError, "client 'p'", "round 2", "No space left"):
                device.train(2, download, run)
            assert device.files() == before
    assert device.train(2, download) == undisturbed.train(2, download)
    assert device.train(3) == undisturbed.train(3)


def test_a_damaged_state_is_kept_aside_and_the_download_is_the_start(
    phone: Any, caplog: pytest.LogCaptureFixture
) -> None:
    device, fresh = phone(method="fedavg"), phone("fresh", method="fedavg")
    download = device.receive(device.train(1), 1)
    file = device.states / STATE_FILE
    broken = file.read_bytes()[:-1]
    file.write_bytes(broken)
    assert device.train(2, download) == fresh.train(2, download)
    assert "damaged (" in caplog.text and "starts from the server's next download" in caplog.text
    assert device.files()["damaged-1.safetensors"] == broken
    assert device.saved.round == 2


def test_another_persons_state_is_not_continued(
    phone: Any, caplog: pytest.LogCaptureFixture
) -> None:
    device, fresh = phone(), phone("fresh")
    device.train(1)
    file = device.states / STATE_FILE
    file.write_bytes(replace(device.saved, client="q").to_bytes())
    assert device.train(1) == fresh.train(1)
    assert "it is client 'q''s, expected 'p''s" in caplog.text


def test_a_state_dir_that_cannot_be_used_is_said(phone: Any, tmp_path: Path) -> None:
    device = phone()
    (tmp_path / "file").write_text("no folder")
    device.node["state-dir"] = str(tmp_path / "file")
    for kind in (MessageType.TRAIN, MessageType.EVALUATE):
        with refused(RunError, "client 'p'", "state", "file/p"):
            device.ask(kind, device.content(1))
