"""What a device keeps beside its state: its model, what it saw of its file, its secret."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from fedsub_client.parts import split_client
from flwr.app import MessageType

from fedsub_client.store import STATE_FILE
from fedsub_core.data.client_data import ClientData
from fedsub_core.data.standardise import Scaling, moments, scaling
from fedsub_core.wire import exchange


def test_the_evaluated_global_model_is_the_one_that_is_kept(phone: Any) -> None:
    device, undisturbed = phone(method="fedavg"), phone("two", method="fedavg")
    download = device.receive(device.train(1), 1)
    undisturbed.train(1)
    before = device.saved
    metrics = device.ask(MessageType.EVALUATE, device.content(1, download)).metric_records
    assert metrics[exchange.METRICS]["examples"] == 18
    kept = device.saved
    assert kept.model is not None and before.model is not None
    for name, array in download.dense.items():
        assert np.array_equal(kept.model.params[name].numpy(), array)
        assert not np.array_equal(before.model.params[name].numpy(), array)
    assert np.array_equal(kept.model.scaling.mean, device.shared.mean)  # type: ignore[union-attr]
    # Nothing else: the next round is that of a device that was not evaluated.
    assert (kept.round, kept.reply, kept.seen) == (1, before.reply, before.seen)
    assert all(torch.equal(before.state[name], t) for name, t in kept.state.items())
    assert device.train(1, download) == before.reply
    assert device.train(2, download) == undisturbed.train(2, download)


def test_an_own_model_is_evaluated_without_a_trace(phone: Any) -> None:
    device = phone()
    assert (
        device.ask(MessageType.EVALUATE, device.content(1))
        and not (device.states / STATE_FILE).exists()
    )
    device.train(1)
    before = device.files()
    device.ask(MessageType.EVALUATE, device.content(1))
    assert device.files() == before


@pytest.mark.parametrize("mode", ["federation", "client", "none"])
def test_the_model_is_kept_with_what_it_takes_to_use_it(phone: Any, mode: str) -> None:
    device = phone(standardise=mode)
    device.train(1)
    model = device.saved.model
    assert model.card == device.card and model.shape == (2,) and model.kind == "auto"
    expected: Scaling | None = None
    if mode == "federation":
        expected = device.shared
    elif mode == "client":
        expected = scaling(
            moments(split_client(device.person(), device.card, device.config).train_x)
        )
    if expected is None:
        assert model.scaling is None
    else:
        assert np.array_equal(model.scaling.mean, expected.mean)
        assert np.array_equal(model.scaling.std, expected.std)


def test_what_was_seen_of_the_file_lasts(phone: Any) -> None:
    device = phone(n=30)
    device.train(1)
    more = device.person(30, seed=4)
    x, y = (
        np.concatenate([device.person(30).x, more.x]),
        np.concatenate([device.person(30).y, more.y]),
    )
    np.savez(Path(device.node["data"]) / "clients" / "p.npz", x=x, y=y)
    device.train(2)
    assert device.saved.seen.sizes == (30, 60)
    old = split_client(device.person(30), device.card, device.config)
    grown = split_client(ClientData("p", x, y), device.card, device.config, (30, 60))
    # Nobody is tested on what was trained on before the file grew.
    tested = {row.tobytes() for row in grown.test_x}
    assert not any(row.tobytes() in tested for row in old.train_x)
    content = device.ask(MessageType.EVALUATE, device.content(2))
    assert content.metric_records[exchange.METRICS]["examples"] == len(grown.test_y)


def test_the_noises_secret_is_drawn_once(phone: Any) -> None:
    pytest.importorskip("dp_accounting")
    noise = {"noise": "gaussian", "clip": 1.0, "sigma": 1.0}
    device = phone(**{f"fedsub.prototype-{key}": value for key, value in noise.items()})
    device.train(1)
    secret = device.saved.state["noise.secret"].item()
    device.train(2)
    assert device.saved.state["noise.secret"].item() == secret != 0
    device.train(1, run="other")
    assert device.saved.state["noise.secret"].item() not in (0, secret)
