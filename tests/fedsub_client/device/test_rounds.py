"""What a device does when a message comes again, too late, from another run, or is refused."""

from typing import Any

import numpy as np
import pytest
import torch
from flwr.app import MessageType

from fedsub.testing.refusals import refused
from fedsub_client.client import FedSubClient
from fedsub_client.saved_state import Saved
from fedsub_client.state_files import kept_name
from fedsub_client.store import PREVIOUS_FILE, STATE_FILE
from fedsub_core.errors import MessageRefused, RunError
from fedsub_core.wire import exchange
from fedsub_core.wire.bundles import Bundle

WAYS: list[dict[str, Any]] = [
    {"method": "fedsub"},
    {"method": "fedsub", "upload_encoding": "delta,int8", "download_encoding": "delta"},
    {"method": "fedsub", "standardise": "client", "upload_encoding": "int8"},
    {"method": "fedavg", "upload_encoding": "delta,top-k:0.1", "download_encoding": "delta"},
    {"method": "ditto"},
    {"method": "local", "standardise": "none"},
]


@pytest.mark.parametrize("way", WAYS, ids=lambda way: "-".join(map(str, way.values())))
def test_a_state_on_disk_is_as_good_as_one_in_memory(phone: Any, way: dict[str, Any]) -> None:
    device = phone(**way)
    cohort = device.cohort()
    undisturbed, download, models = FedSubClient(cohort), Bundle(), []
    for round in range(1, 5):
        sent = np.frombuffer(device.payload(round, download), np.uint8)
        expected = undisturbed.fit([sent], dict(device.told(round)))[0][0].tobytes()
        assert device.train(round, download) == expected
        saved = device.saved
        assert (saved.client, saved.run, saved.method) == ("p", "run", way["method"])
        assert saved.round == round and saved.reply == expected
        assert saved.report == undisturbed.report and saved.report["training_loss"] > 0
        state = cohort.client_state(0)
        assert saved.state.keys() == state.keys()
        assert all(torch.equal(saved.state[name], tensor) for name, tensor in state.items())
        assert saved.model is not None
        for name, tensor in cohort.learner.predicted_by(cohort.state).items():
            assert torch.equal(saved.model.params[name], tensor[0])
        models.append(saved.model.params["linear1.weight"])
        download = device.receive(expected, round)
    assert not torch.equal(models[0], models[-1])
    assert sorted(device.files()) == ["lock", STATE_FILE]


@pytest.mark.parametrize("way", WAYS, ids=lambda way: "-".join(map(str, way.values())))
def test_a_round_asked_twice_is_trained_once(
    phone: Any, way: dict[str, Any], trained: list[int], caplog: pytest.LogCaptureFixture
) -> None:
    device, undisturbed = phone(**way), phone("two", **way)
    download = device.receive(device.train(1), 1)
    assert undisturbed.receive(undisturbed.train(1), 1).tensors.keys() == download.tensors.keys()
    message = device.content(2, download)
    first = device.ask(MessageType.TRAIN, message)
    before = device.files()
    for _ in range(2):
        again = device.ask(MessageType.TRAIN, message)
        assert exchange.unpack(again) == exchange.unpack(first)
        # What was reported beside the upload belongs to it.
        assert dict(again.metric_records[exchange.REPORT]) == device.saved.report
        assert again.metric_records[exchange.REPORT] == first.metric_records[exchange.REPORT]
    assert trained == [1, 1, 2] and device.files() == before
    assert "client p: round 2 was done before; same answer" in caplog.text
    assert undisturbed.train(2, download) == exchange.unpack(first)
    for one in (device, undisturbed):
        one.receive(exchange.unpack(first), 2)
    assert device.train(3) == undisturbed.train(3)


def test_what_a_device_reports_is_beside_its_upload(phone: Any) -> None:
    for method, names in (
        ("fedsub", {"training_loss"}),
        ("apfl", {"alpha"}),
        ("local", {"training_loss"}),
    ):
        device = phone(method, method=method)
        content = device.ask(MessageType.TRAIN, device.content(1))
        report = dict(content.metric_records[exchange.REPORT])
        assert report.keys() == names and report == device.saved.report


def test_asked_again_it_is_evaluated_again_where_that_is_wanted(
    phone: Any, trained: list[int]
) -> None:
    device = phone(method="local")
    first, again = (device.ask(MessageType.TRAIN, device.content(1, also=True)) for _ in range(2))
    metrics = first.metric_records[exchange.METRICS]
    assert metrics["examples"] == 18 and 0 < metrics["macro_f1"] <= 1
    assert dict(again.metric_records[exchange.METRICS]) == dict(metrics)
    assert again.metric_records[exchange.REPORT] == first.metric_records[exchange.REPORT]
    assert exchange.METRICS not in device.ask(MessageType.TRAIN, device.content(1))
    assert trained == [1]


def test_each_run_goes_on_from_its_own_state(phone: Any, caplog: pytest.LogCaptureFixture) -> None:
    """A folder was mistyped, or a second study is made meanwhile: neither costs the first one."""
    device, steady = phone(), {"A": phone("a"), "B": phone("b")}
    for run, round in (("A", 1), ("A", 2), ("B", 1), ("A", 3), ("B", 2), ("A", 4)):
        # Nor is a round of one run ever answered with what the other did in it.
        assert device.train(round, run=run) == steady[run].train(round, run=run), (run, round)
        assert (device.saved.run, device.saved.round) == (run, round)
    files = [name for name in device.files() if name.endswith(".safetensors")]
    other = kept_name(steady["B"].saved)
    assert sorted(files) == sorted([STATE_FILE, other])
    assert Saved.of_bytes(device.files()[other]).round == 2
    assert caplog.text.count("client p: another run; kept the one before as kept-") == 4


def test_the_state_that_an_earlier_release_set_aside_is_found(phone: Any) -> None:
    device, steady = phone(), phone("steady")
    for one in (device, steady):
        one.train(1)
        one.train(2)
    (device.states / STATE_FILE).rename(device.states / PREVIOUS_FILE)
    device.train(1, run="other")
    assert device.train(3) == steady.train(3)
    assert PREVIOUS_FILE not in device.files()
    assert device.train(2, run="other")
    assert device.train(4) == steady.train(4)


def test_it_is_noted_that_a_runs_last_round_was_trained(phone: Any) -> None:
    device = phone()
    for round, over in ((8, False), (9, True)):  # of nine
        device.train(round)
        assert device.saved.finished is over


@pytest.mark.parametrize("first", ["local", "ditto"])
def test_methods_keep_their_models_whichever_is_the_runs_main_one(phone: Any, first: str) -> None:
    """A deployed run may go on with other methods, and go back; each has a run of its own name."""
    steady = {name: phone(name, method=name) for name in ("local", "ditto")}
    mains = ("local", "ditto", "local")
    for turn, main in enumerate(mains):
        other = "ditto" if main == "local" else "local"
        device = phone(method=main, beside=other)
        order = (first, "ditto" if first == "local" else "local")
        for round in (2 * turn + 1, 2 * turn + 2):
            for name in order:
                content = device.content(round, run=f"run of {name}", method=name)
                answer = exchange.unpack(device.ask(MessageType.TRAIN, content))
                assert answer == steady[name].train(round, run=f"run of {name}"), (main, round)
                assert device.saved_of(name).method == name
    # Nor does a run of its own destroy what the run before it kept.
    alone = phone(method="ditto")
    alone.train(1, run="new")
    kept = [Saved.of_bytes(data) for name, data in alone.files().items() if "." in name]
    found = {(one.method, one.round) for one in kept}
    assert {("local", 6), ("ditto", 6), ("ditto", 1)} <= found


@pytest.mark.parametrize("kind", [MessageType.TRAIN, MessageType.EVALUATE])
def test_a_message_that_is_refused_changes_nothing(phone: Any, kind: str) -> None:
    device = phone()
    device.train(1)
    before = device.files()
    for run in ("run", "other"):
        with pytest.raises(MessageRefused, match=r"client id: got 'q', expected 'p'"):
            device.ask(kind, device.content(2, run=run, client="q"))
        content = device.content(2, run=run)
        content[exchange.PAYLOAD] = exchange.pack(b"nonsense")
        with pytest.raises(MessageRefused):
            device.ask(kind, content)
        with refused(RunError, "client 'p'", "'ditto'", expected="fedsub"):
            device.ask(kind, device.content(2, run=run, method="ditto"))
    assert device.files() == before
    assert device.train(1) == device.saved.reply


def test_another_runs_evaluation_leaves_the_state(phone: Any) -> None:
    device = phone(method="fedavg")
    download = device.receive(device.train(1), 1)
    before = device.files()
    device.ask(MessageType.EVALUATE, device.content(7, download, run="other"))
    assert device.files() == before


def test_an_older_round_is_trained_and_said(
    phone: Any, trained: list[int], caplog: pytest.LogCaptureFixture
) -> None:
    device = phone()
    for round in (1, 2, 3):
        device.train(round)
    late = device.train(2)
    assert trained == [1, 2, 3, 2] and device.saved.round == 2
    assert "client p: asked for round 2 after 3: the server went back" in caplog.text
    assert device.train(2) == late and len(trained) == 4
    device.train(3)
    assert trained[4:] == [3]
