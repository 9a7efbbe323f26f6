"""What a device keeps beside its state: the model that is used, and its secret."""

import errno
import os
from typing import Any

import numpy as np
import pytest
import torch
from flwr.app import MessageType

from fedsub_client.store import STATE_FILE
from fedsub_core.data.standardise import Scaling, moments, scaling
from fedsub_core.wire import exchange
from fedsub_core.wire.bundles import Bundle

NOTHING = Bundle()
NOISE = {
    "fedsub.prototype-noise": "gaussian",
    "fedsub.prototype-clip": 1.0,
    "fedsub.prototype-sigma": 1.0,
}


def test_the_evaluated_global_model_is_the_one_that_is_kept(phone: Any) -> None:
    device, undisturbed = phone(method="fedavg"), phone("two", method="fedavg")
    download = device.receive(device.train(1), 1)
    undisturbed.train(1)
    before = device.saved
    metrics = device.ask(MessageType.EVALUATE, device.content(1, download)).metric_records
    assert metrics[exchange.METRICS]["examples"] == 18
    kept = device.saved
    assert kept.model is not None and before.model is not None
    for name in before.model.params:
        assert np.array_equal(kept.model.params[name].numpy(), download.floats(name))
        assert not torch.equal(kept.model.params[name], before.model.params[name])
    assert np.array_equal(kept.model.scaling.mean, device.shared.mean)
    # Nothing else: the next round is that of a device that was not evaluated.
    assert (kept.round, kept.reply, kept.report) == (1, before.reply, before.report)
    assert kept.file == before.file
    assert all(torch.equal(before.state[name], t) for name, t in kept.state.items())
    assert device.train(1, download) == before.reply
    assert device.train(2, download) == undisturbed.train(2, download)


@pytest.mark.parametrize("layers", ["all", "head", "head-then-all"])
def test_a_model_that_was_adapted_to_be_tested_is_the_one_that_is_used(
    phone: Any, layers: str
) -> None:
    way = {"method": "fedavg-finetune", "fedavg-finetune.finetune": layers}
    device, undisturbed = phone(**way), phone("two", **way)
    download = device.receive(device.train(1), 1)
    undisturbed.train(1)
    before = device.saved
    device.ask(MessageType.EVALUATE, device.content(1, download))
    kept = device.saved
    cohort = undisturbed.cohort()
    cohort.load_states([before.state])
    turn = exchange.read_instructions(device.told(1)).turn
    adapted = cohort.learner.predicted_by(
        cohort.personalised(turn, device.scaling, [0], [download])
    )
    for name, tensor in adapted.items():
        assert torch.equal(kept.model.params[name], tensor[0])
        received = torch.from_numpy(download.floats(name))
        frozen = layers == "head" and not name.startswith("linear3")
        assert torch.equal(kept.model.params[name], received) == frozen, name
    # The learner goes on from what the server sends, as if nobody had tested it.
    assert kept.state.keys() == before.state.keys()
    assert all(torch.equal(before.state[name], tensor) for name, tensor in kept.state.items())
    assert (kept.reply, kept.report, kept.file) == (before.reply, before.report, before.file)
    assert device.train(2, download) == undisturbed.train(2, download)


def test_a_model_that_is_tested_where_it_was_trained_is_kept_as_tested(phone: Any) -> None:
    """One message trains and evaluates: what is adapted for the test is what is used."""
    device = phone(method="fedavg-finetune", **{"fedavg-finetune.tested": "trained"})
    device.ask(MessageType.TRAIN, device.content(1, also=True))
    kept, cohort = device.saved, device.cohort()
    cohort.load_states([kept.state])
    turn = exchange.read_instructions(device.told(1)).turn
    adapted = cohort.learner.predicted_by(cohort.personalised(turn, device.scaling, [0], [NOTHING]))
    for name, tensor in adapted.items():
        assert torch.equal(kept.model.params[name], tensor[0])
        assert not torch.equal(kept.state[f"model.{name}"], tensor[0])


def test_an_own_model_is_evaluated_without_a_trace(phone: Any) -> None:
    device = phone()
    device.ask(MessageType.EVALUATE, device.content(1))
    assert not (device.states / STATE_FILE).exists()
    device.train(1)
    before = device.files()
    device.ask(MessageType.EVALUATE, device.content(1))
    assert device.files() == before


def test_a_full_disk_does_not_keep_a_device_from_saying_how_its_model_does(
    phone: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    device = phone()
    device.train(1)
    before = device.files()

    def fail(_: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", fail)
    answer = device.ask(MessageType.EVALUATE, device.content(1))
    assert answer.metric_records[exchange.METRICS]["examples"] == 18
    assert device.files() == before


@pytest.mark.parametrize("mode", ["federation", "client", "none"])
def test_the_model_is_kept_with_what_it_takes_to_use_it(phone: Any, mode: str) -> None:
    device = phone(standardise=mode)
    device.train(1)
    model = device.saved.model
    assert model.card == device.card and model.shape == (2,) and model.kind == "mlp"
    expected: Scaling | None = None
    if mode == "federation":
        expected = device.shared
    elif mode == "client":
        expected = scaling(moments(device.parts().train_x))
    if expected is None:
        assert model.scaling is None
    else:
        assert np.array_equal(model.scaling.mean, expected.mean)
        assert np.array_equal(model.scaling.std, expected.std)


def test_the_noises_secret_is_the_devices_own_and_drawn_once_a_run(phone: Any) -> None:
    device = phone(**NOISE)
    device.train(1)
    secret = device.saved.state["noise.secret"].item()
    device.train(2)
    assert device.saved.state["noise.secret"].item() == secret != 0
    device.train(1, run="other")
    assert device.saved.state["noise.secret"].item() not in (0, secret)
    other = phone("two", **NOISE)
    other.train(1)
    assert other.saved.state["noise.secret"].item() not in (0, secret)


def test_a_simulated_node_draws_none_so_that_the_seed_decides(phone: Any) -> None:
    nodes = [phone(name, simulated=True, **NOISE) for name in ("one", "two")]
    assert nodes[0].train(1) == nodes[1].train(1)
    for node in nodes:
        assert node.saved.state["noise.secret"].item() == 0
        assert node.saved.state["noise.releases"].item() == 1
